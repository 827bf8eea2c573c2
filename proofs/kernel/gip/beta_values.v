(* gip.beta_values: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix B.1 (and the text below Corollary 1).
   "We choose d in [10, 200] as the max group size is selected to be 256 and k in [0.1, 0.9]. [...] the smallest beta is 0.78 at (k, d) = (0.1, 10)." Clipping bound C = 1.
   Stated as printed is this value alone, where kd = 1 is an integer. The 0.9913 for WRN-16-4 is not: where kd is rounded, as at k = 0.08, d = 256, such values occur.
   Doubts: "We presented the value of log(beta) in the figure": 0.78 may be one of log(beta). `correction` is about whole kd, as the formula is. *)
From kernel Require Import definitions lemmas.

(* beta of Corollary 1, K = kd; zeta = k + 2 a phi(a), a the quantile of eq. 15. Of a only a >= 0 and 1 - zeta > 0 is used:
   1 - zeta is the integral of x^2 phi(x) from -a to a (eq. 16). *)
Definition zeta (k a : R) : R := k + 2 * a / sqrt (2 * PI) * exp (- a ^ 2 / 2).
(* F(theta) = E[i], i = h / 2 the number of swapped pairs of the Mallows law around I0 *)
Definition weight (theta : R) (I0 I : list bool) : R := exp (- theta * INR (distance I I0)).
Definition swaps d K theta I0 : R :=
  over_masks d K (fun I => INR (distance I I0) / 2 * weight theta I0 I) / over_masks d K (weight theta I0).
Definition beta (C a theta : R) (d K : nat) (I0 : list bool) : R :=
  let k := share d K in
  C ^ 2 * (1 - k) * INR d / ((1 - k) * INR d * (1 - zeta k a) + zeta k a / k * swaps d K theta I0).
Definition printed : Prop := exists a theta I0, 0 <= theta /\ 0 <= a /\ zeta (share 10 1) a < 1 /\
  In I0 (masks 10 1) /\ beta 1 a theta 10 1 I0 = 0.78.
(* beta is at least C^2 *)
Definition correction : Prop := forall C d K a theta I0, 0 < C -> (0 < K < d)%nat -> 0 <= theta -> 0 <= a -> zeta (share d K) a < 1 ->
  In I0 (masks d K) -> C ^ 2 <= beta C a theta d K I0.

Definition indicator (I : list bool) : vec := map (fun b : bool => if b then 1 else 0) I.
Lemma distance_dot I I0 : length I = length I0 ->
  INR (distance I I0) = INR (ones I) + INR (ones I0) - 2 * dot (mask I (indicator I0)) (indicator I0).
Proof.
  revert I0; induction I as [|a I IH]; intros [|b I0] l; try discriminate; [unfold dot; simpl; ring|].
  specialize (IH I0 ltac:(simpl in l; lia)). unfold indicator, ones in *. cbn [distance map mask count_occ]. rewrite dot_cons.
  destruct a, b; cbn [Bool.eqb plus]; simpl bool_dec; cbn iota; rewrite ?S_INR; lra.
Qed.
Lemma dot_indicator I : dot (indicator I) (indicator I) = INR (ones I).
Proof. unfold indicator, ones. induction I as [|[] I IH]; simpl map; simpl count_occ; rewrite ?dot_cons, ?S_INR, ?IH; simpl; unfold dot; simpl; lra. Qed.
(* without dispersion the mean number of swaps is K (d - K) / d *)
Lemma mean_distance d K I0 : (0 < K < d)%nat -> In I0 (masks d K) ->
  avg (masks d K) (fun I => INR (distance I I0) / 2) = INR K * (INR d - INR K) / INR d.
Proof.
  intros [K0 Kd] i0. destruct (in_masks _ _ _ i0) as [l0 o0].
  rewrite (avg_ext _ _ (fun I => INR K + -1 * dot (mask I (indicator I0)) (indicator I0))).
  - rewrite avg_add, avg_constant, avg_scale by (apply masks_some; lia).
    rewrite masked_dot by (try lia; unfold indicator; rewrite map_length; exact l0). rewrite dot_indicator, o0. unfold share.
    assert (0 < INR d) by (apply lt_0_INR; lia). field. lra.
  - apply Forall_forall. intros I i. destruct (in_masks _ _ _ i) as [l o]. rewrite distance_dot by congruence. rewrite o, o0. field.
Qed.
Lemma chebyshev {A} (f g : A -> R) : (forall a b, (f a - f b) * (g a - g b) <= 0) -> forall l,
  INR (length l) * total (map (fun a => f a * g a) l) <= total (map f l) * total (map g l).
Proof.
  intros h l. induction l as [|a l IH]; [simpl; lra|]. cbn [map total fold_right length]. rewrite S_INR.
  assert (c : INR (length l) * (f a * g a) + total (map (fun b => f b * g b) l) <= f a * total (map g l) + g a * total (map f l)).
  { clear IH. induction l as [|b l IH]; [simpl; lra|]. cbn [map total fold_right length]. rewrite S_INR. specialize (h a b). unfold total in *. nra. }
  unfold total in *. nra.
Qed.
Lemma swaps_range d K theta I0 : (0 < K < d)%nat -> 0 <= theta -> In I0 (masks d K) ->
  0 <= swaps d K theta I0 <= INR K * (INR d - INR K) / INR d.
Proof.
  intros Kd t0 i0. unfold swaps. set (f := fun I => INR (distance I I0) / 2). set (w := weight theta I0).
  assert (W : 0 < over_masks d K w) by (apply over_masks_pos; [lia | intro; apply exp_pos]).
  assert (N : 0 < INR (length (masks d K))) by (apply (number_pos d K); lia). split.
  - apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat, W]. unfold over_masks.
    replace 0 with (total (map (fun _ : list bool => 0) (masks d K))) by (rewrite total_constant; ring).
    apply total_map_le, Forall_forall. intros I _. pose proof (pos_INR (distance I I0)). assert (0 < w I) by apply exp_pos.
    apply Rmult_le_pos; [unfold Rdiv; apply Rmult_le_pos; [apply pos_INR | lra] | lra].
  - rewrite <- (mean_distance d K I0 Kd i0). unfold avg. fold f. apply (Rmult_le_reg_r (over_masks d K w * INR (length (masks d K)))); [apply Rmult_lt_0_compat; assumption|].
    assert (c : forall a b, (f a - f b) * (w a - w b) <= 0).
    { intros a b. unfold f, w, weight. set (x := INR (distance a I0)). set (y := INR (distance b I0)).
      destruct (Rtotal_order x y) as [l|[->|l]]; [|lra|].
      - assert (exp (- theta * y) <= exp (- theta * x)) by (destruct (Req_dec theta 0) as [->|]; [right; f_equal; ring | left; apply exp_increasing; nra]). nra.
      - assert (exp (- theta * x) <= exp (- theta * y)) by (destruct (Req_dec theta 0) as [->|]; [right; f_equal; ring | left; apply exp_increasing; nra]). nra. }
    pose proof (chebyshev f w c (masks d K)) as h.
    change (over_masks d K (fun I => INR (distance I I0) / 2 * w I)) with (over_masks d K (fun I => f I * w I)).
    replace (over_masks d K (fun I => f I * w I) / over_masks d K w * (over_masks d K w * INR (length (masks d K))))
      with (INR (length (masks d K)) * over_masks d K (fun I => f I * w I)) by (field; lra).
    replace (total (map f (masks d K)) / INR (length (masks d K)) * (over_masks d K w * INR (length (masks d K))))
      with (total (map f (masks d K)) * over_masks d K w) by (field; lra). exact h.
Qed.
Theorem correction_holds : correction.
Proof.
  intros C d K a theta I0 C0 Kd t0 a0 z1 i0. unfold beta. set (k := share d K). set (z := zeta k a).
  pose proof (swaps_range d K theta I0 Kd t0 i0) as [F0 F1]. set (F := swaps d K theta I0) in *.
  assert (D0 : 0 < INR d) by (apply lt_0_INR; lia).
  assert (k0 : 0 < k) by (apply share_pos; lia). assert (k1 : k < 1) by (apply share_lt; lia).
  assert (zk : k <= z). { unfold z, zeta. assert (0 < sqrt (2 * PI)) by (apply sqrt_lt_R0; pose proof PI_RGT_0; lra). pose proof (exp_pos (- a ^ 2 / 2)).
    assert (0 <= 2 * a / sqrt (2 * PI)) by (apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; assumption]). nra. }
  assert (z1' : z < 1) by exact z1.
  assert (Fk : F <= k * ((1 - k) * INR d)).
  { eapply Rle_trans; [exact F1|]. right. unfold k, share. field. lra. }
  set (m := (1 - k) * INR d) in *. assert (m0 : 0 < m) by (apply Rmult_lt_0_compat; lra).
  assert (q0 : 0 < z / k) by (apply Rdiv_lt_0_compat; lra).
  assert (up : z / k * F <= z * m). { apply Rle_trans with (z / k * (k * m)); [apply Rmult_le_compat_l; lra | right; field; lra]. }
  assert (low : 0 <= z / k * F) by (apply Rmult_le_pos; lra). assert (0 < m * (1 - z)) by (apply Rmult_lt_0_compat; lra).
  set (D := m * (1 - z) + z / k * F). assert (Dp : 0 < D) by (unfold D; lra). assert (Dm : D <= m) by (unfold D; lra).
  apply (Rmult_le_reg_r D); [exact Dp|]. replace (C ^ 2 * (1 - k) * INR d / D * D) with (C ^ 2 * m) by (unfold m; field; lra).
  apply Rmult_le_compat_l; [nra | exact Dm].
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (a & theta & I0 & t0 & a0 & z1 & i0 & e).
  pose proof (correction_holds 1 10%nat 1%nat a theta I0 Rlt_0_1 ltac:(lia) t0 a0 z1 i0) as le. rewrite e in le. lra.
Qed.
