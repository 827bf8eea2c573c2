(* gip.a4: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.4, text after Proposition 3.
   As the index sensitivity is large, randomised response has p close to 1/2 and "the output of index is basically a random flipping with half being 0 and half being 1,
   which loses the meaning of pruning". That its output does not keep the number of ones is right, and not stated here. Refuted is the reading, in a comparison of
   the two, that the Mallows mechanism therefore keeps more of the reference in high dimension. *)
From kernel Require Import definitions lemmas.

From kernel Require Import gip.prop3 gip.thm1.
(* At the same budget and sensitivity both have the same theta = log(p / (1 - p)) = eps_2 / C_1. How much the output tells of the reference I0:
   the chance that a one of I0 is kept less the chance that a zero of it is turned into a one. *)
Definition one_at (j : nat) (I : list bool) : R := if nth j I false then 1 else 0.
Definition mallows_chance (d K : nat) (theta : R) (I0 : list bool) (j : nat) : R :=
  over_masks d K (fun I => mallows d K theta I0 I * one_at j I).
Definition contrast (d K : nat) (theta : R) (I0 : list bool) (i j : nat) : R :=
  mallows_chance d K theta I0 i - mallows_chance d K theta I0 j.
Definition response_contrast (p : R) : R := p - (1 - p).
(* for p close enough to 1/2 and d large enough *)
Definition reading : Prop := exists d0 p0, 1 / 2 < p0 /\
  forall d K p I0 i j, (d0 <= d)%nat -> (0 < K < d)%nat -> 1 / 2 < p < p0 -> p < 1 -> In I0 (masks d K) -> (i < d)%nat -> (j < d)%nat ->
  nth i I0 false = true -> nth j I0 false = false ->
  response_contrast p <= contrast d K (ln (p / (1 - p))) I0 i j.
(* given that its output has K ones, randomised response is the Mallows law, and at distance h both have the loss theta h *)
Definition correction : Prop := forall d K p I0 I, (K <= d)%nat -> 1 / 2 < p < 1 -> In I0 (masks d K) -> In I (masks d K) ->
  response p I0 I / over_masks d K (response p I0) = mallows d K (ln (p / (1 - p))) I0 I.

Lemma response_power p I0 I : 0 < p -> length I0 = length I -> response p I0 I = p ^ length I * ((1 - p) / p) ^ distance I I0.
Proof.
  intro p0. revert I; induction I0 as [|a I0 IH]; intros [|b I] l; try discriminate; [simpl; ring|]. cbn [response distance length].
  rewrite IH by (simpl in l; lia). destruct a, b; cbn [Bool.eqb plus pow]; field; lra.
Qed.
Lemma weight_power p h : 1 / 2 < p < 1 -> exp (- ln (p / (1 - p)) * INR h) = ((1 - p) / p) ^ h.
Proof.
  intros [a b]. assert (0 < p / (1 - p)) by (apply Rdiv_lt_0_compat; lra).
  replace ((1 - p) / p) with (exp (- ln (p / (1 - p)))); [rewrite exp_pow; f_equal; ring|].
  rewrite exp_Ropp, exp_ln by assumption. field; lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d K p I0 I Kd hp i0 i. destruct (in_masks _ _ _ i0) as [l0 _], (in_masks _ _ _ i) as [l _]. unfold mallows.
  assert (w : forall J, In J (masks d K) -> response p I0 J = p ^ d * weight (ln (p / (1 - p))) I0 J).
  { intros J j. destruct (in_masks _ _ _ j) as [lJ _]. rewrite response_power by (try lra; congruence). unfold weight. rewrite weight_power by exact hp.
    rewrite lJ. reflexivity. }
  assert (s : over_masks d K (response p I0) = p ^ d * psi d K (ln (p / (1 - p))) I0).
  { unfold psi, over_masks. rewrite <- total_map_scale. apply total_map_ext, Forall_forall. exact w. }
  rewrite s, w by exact i. pose proof (psi_pos d K (ln (p / (1 - p))) I0 Kd). assert (0 < p ^ d) by (apply pow_lt; lra). field. lra.
Qed.
(* d >= 5 entries, one kept, 1/2 < p <= 5/9, q = (1 - p)/p >= 4/5: the contrast of randomised response is (1 - q)/(1 + q),
   that of the Mallows law (1 - q^2)/(1 + (d - 1) q^2), which is smaller; 1/9 and 9/89 for d = 5, q = 4/5 *)
Lemma masks_none d : masks d 0 = [repeat false d].
Proof. induction d as [|d IH]; [reflexivity|]. cbn [masks repeat]. rewrite IH. reflexivity. Qed.
Lemma distance_none m : distance m (repeat false (length m)) = ones m.
Proof. unfold ones. induction m as [|[] m IH]; simpl; [reflexivity | rewrite IH; reflexivity | exact IH]. Qed.
Lemma number_one d : number d 1 = INR d.
Proof. pose proof (number_next d 0) as h. rewrite number_zero in h. simpl in h. lra. Qed.
Lemma one_kept d (F : nat -> R) (f : list bool -> R) :
  over_masks (S d) 1 (fun I => F (distance I (true :: repeat false d)) * f I)
  = F 0%nat * f (true :: repeat false d) + F 2%nat * over_masks d 1 (fun m => f (false :: m)).
Proof.
  rewrite over_masks_step. f_equal.
  - unfold over_masks. rewrite masks_none. cbn [map total fold_right]. cbn [distance Bool.eqb plus]. rewrite distance_self. ring.
  - unfold over_masks. rewrite <- total_map_scale. apply total_map_ext, Forall_forall. intros m i. destruct (in_masks _ _ _ i) as [l o].
    cbn [distance Bool.eqb plus]. rewrite <- l, distance_none, o. reflexivity.
Qed.
Lemma psi_one d theta : psi (S d) 1 theta (true :: repeat false d) = exp (- theta * INR 0) + exp (- theta * INR 2) * INR d.
Proof.
  unfold psi, weight. rewrite (over_masks_ext _ _ _ (fun I => exp (- theta * INR (distance I (true :: repeat false d))) * 1)) by (intro; ring).
  rewrite (one_kept d (fun h => exp (- theta * INR h)) (fun _ => 1)), over_masks_constant, number_one. ring.
Qed.
Lemma chance_one d theta j : mallows_chance (S d) 1 theta (true :: repeat false d) j
  = (exp (- theta * INR 0) * one_at j (true :: repeat false d) + exp (- theta * INR 2) * over_masks d 1 (fun m => one_at j (false :: m)))
    / psi (S d) 1 theta (true :: repeat false d).
Proof.
  unfold mallows_chance, mallows. set (P := psi _ _ _ _).
  rewrite <- (one_kept d (fun h => exp (- theta * INR h)) (one_at j)). unfold Rdiv. rewrite Rmult_comm. unfold over_masks. rewrite <- total_map_scale.
  apply total_map_ext, Forall_forall. intros I _. unfold weight. ring.
Qed.
Lemma contrast_one d p : 1 / 2 < p < 1 -> let q := (1 - p) / p in
  contrast (S (S d)) 1 (ln (p / (1 - p))) (true :: repeat false (S d)) 0 1 = (1 - q ^ 2) / (1 + INR (S d) * q ^ 2).
Proof.
  intros hp q. unfold contrast. rewrite !chance_one, psi_one, !weight_power by exact hp. fold q.
  assert (z : forall e, over_masks e 1 (fun m => one_at 0 (false :: m)) = 0).
  { intro e. unfold one_at. cbn [nth]. rewrite over_masks_constant. ring. }
  assert (u : over_masks (S d) 1 (fun m => one_at 1 (false :: m)) = 1).
  { rewrite over_masks_step. unfold one_at. cbn [nth]. rewrite !over_masks_constant, number_zero. ring. }
  rewrite z, u. unfold one_at. cbn [nth repeat]. cbn [pow]. assert (0 <= q * (q * 1)) by nra. pose proof (pos_INR (S d)).
  assert (0 <= INR (S d) * (q * (q * 1))) by (apply Rmult_le_pos; assumption). field. lra.
Qed.
Theorem reading_is_false : ~ reading.
Proof.
  intros (d0 & p0 & h0 & claim). set (d := (d0 + 3)%nat). set (p := Rmin (5 / 9) ((1 / 2 + p0) / 2)).
  assert (p1 : p <= 5 / 9) by apply Rmin_l. assert (p2 : p <= (1 / 2 + p0) / 2) by apply Rmin_r.
  assert (p3 : 1 / 2 < p) by (apply Rmin_glb_lt; lra).
  specialize (claim (S (S d)) 1%nat p (true :: repeat false (S d)) 0%nat 1%nat ltac:(unfold d; lia) ltac:(lia) ltac:(lra) ltac:(lra)).
  assert (i : In (true :: repeat false (S d)) (masks (S (S d)) 1)).
  { change (masks (S (S d)) 1) with (map (cons true) (masks (S d) 0) ++ map (cons false) (masks (S d) 1)). rewrite masks_none. apply in_or_app. left. left. reflexivity. }
  specialize (claim i ltac:(lia) ltac:(lia) eq_refl eq_refl). rewrite (contrast_one d p ltac:(lra)) in claim. unfold response_contrast in claim.
  set (q := (1 - p) / p) in *. assert (pq : p * q = 1 - p) by (unfold q; field; lra).
  assert (q0 : 4 / 5 <= q) by (apply (Rmult_le_reg_l p); lra). assert (q1 : q < 1) by (apply (Rmult_lt_reg_l p); lra).
  assert (n : 4 <= INR (S d)) by (replace 4 with (INR 4) by (simpl; ring); apply le_INR; unfold d; lia). set (N := INR (S d)) in *.
  assert (big : 2 * q + q ^ 2 < N * q ^ 2) by nra. assert (D : 0 < 1 + N * q ^ 2) by nra.
  apply (Rmult_le_compat_r (1 + N * q ^ 2)) in claim; [|lra]. replace ((1 - q ^ 2) / (1 + N * q ^ 2) * (1 + N * q ^ 2)) with (1 - q ^ 2) in claim by (field; lra).
  assert (e : p - (1 - p) = p * (1 - q)) by lra. rewrite e in claim.
  assert (f : p * (1 + q) = 1) by lra. assert (p * (1 - q) * ((1 + q) * (1 + q)) < p * (1 - q) * (1 + N * q ^ 2)) by (apply Rmult_lt_compat_l; nra).
  replace (p * (1 - q) * ((1 + q) * (1 + q))) with (p * (1 + q) * (1 - q ^ 2)) in H by ring. rewrite f in H. lra.
Qed.
