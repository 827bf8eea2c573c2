(* gep.residual_scale: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Theorem 3.3 and its proof (eq. 8).
   "r_t = max_i |(R_t)_{i,:}| is the sensitivity of residual gradient at step t." *)
From kernel Require Import definitions lemmas.

(* residuals are what a projection on the line of the unit vector b leaves (k = 1); neighbours differ by one record added *)
Definition residual (b g : vec) : vec := sub g (scale (dot g b) b).
Definition largest (b : vec) (gs : list vec) : R := fold_right Rmax 0 (map (fun g => norm (residual b g)) gs).
Definition released d (b : vec) (gs : list vec) : vec := sum d (map (residual b) gs).
Definition data d (gs : list vec) : Prop := gs <> [] /\ Forall (fun g => length g = d /\ norm g <= 1) gs.   (* 1-Lipschitz losses *)
(* for all data: no neighbour is further away *)
Definition printed : Prop := forall d b g gs, length b = d -> norm b = 1 -> data d gs -> data d (g :: gs) ->
  norm (sub (released d b (g :: gs)) (released d b gs)) <= largest b gs.
(* a public bound on all residuals is one *)
Definition correction : Prop := forall d b rho g gs, length b = d -> data d gs -> data d (g :: gs) ->
  norm (residual b g) <= rho -> norm (sub (released d b (g :: gs)) (released d b gs)) <= rho.

(* three samples with the gradient e_1 at b = e_1 have no residual; the fourth, e_2, moves the sum by 1 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (n1 : norm [1; 0] = 1) by norm_of. assert (n2 : norm [0; 1] = 1) by norm_of.
  specialize (claim 2%nat [1; 0] [0; 1] [[1; 0]; [1; 0]; [1; 0]] eq_refl n1).
  assert (r1 : residual [1; 0] [1; 0] = [0; 0]) by (unfold residual, sub, scale, dot; simpl; f_equal; [lra | f_equal; lra]).
  assert (r2 : residual [1; 0] [0; 1] = [0; 1]) by (unfold residual, sub, scale, dot; simpl; f_equal; [lra | f_equal; lra]).
  assert (n0 : norm [0; 0] = 0) by norm_of.
  unfold largest, released in claim. cbn [map fold_right] in claim. rewrite r1, r2, n0 in claim.
  assert (z : Rmax 0 0 = 0) by (apply Rmax_left; lra). rewrite !z in claim.
  assert (h : norm (sub (sum 2 [[0; 1]; [0; 0]; [0; 0]; [0; 0]]) (sum 2 [[0; 0]; [0; 0]; [0; 0]])) <= 0).
  { apply claim; (split; [discriminate|]); repeat constructor; lra. }
  replace (norm _) with 1 in h; [lra|]. symmetry. cbv [sum fold_right add zip zero repeat sub]. norm_of.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d b rho g gs eb D D' le.
  assert (len : forall x, length x = d -> length (residual b x) = d) by (intros; unfold residual; rewrite length_sub; rewrite ?length_scale; congruence).
  unfold released. cbn [map]. unfold sum. cbn [fold_right]. rewrite sub_same; [exact le|].
  destruct D as [_ F]. destruct D' as [_ F']. rewrite len by apply (Forall_inv F'). symmetry. apply (length_sum d).
  apply Forall_map. eapply Forall_impl; [|exact F]. simpl; intros x [e _]. apply len, e.
Qed.
