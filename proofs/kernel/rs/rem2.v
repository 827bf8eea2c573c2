(* rs.rem2: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Remark 2.
   "3.4 suggests that RS could impede the convergence of SGD with gradient clipping as 1/kappa > 1 for r > 0", kappa that of Lemma 3.3. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3.
Definition printed : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> 1 / kappa > 1.
Definition correction : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> 1 / kappa >= 1.

(* four entries, one kept, C = 4, w = (2, 2, 2, 2), the deviation is +-w in half of the cases: kappa = 1 *)
Definition moving : law vec := [(1 / 4, [2; 2; 2; 2]); (1 / 4, [-2; -2; -2; -2]); (1 / 2, [0; 0; 0; 0])].
Lemma n4 : norm [2; 2; 2; 2] = 4. Proof. norm_of. Qed.
Lemma n4' : norm [-2; -2; -2; -2] = 4. Proof. norm_of. Qed.
Lemma n0 : norm [0; 0; 0; 0] = 0. Proof. norm_of. Qed.
Lemma satisfiable : assumed 4 1 4 [2; 2; 2; 2] moving.
Proof.
  repeat split; try lia; try lra.
  - rewrite n4; lra.
  - repeat constructor; simpl; lra.
  - simpl; lra.
  - repeat constructor.
  - unfold symmetric, moving, mirrored, opp; simpl. rewrite Ropp_0. replace (Ropp 2) with (-2) by lra. replace (Ropp (-2)) with 2 by lra. apply perm_swap.
  - unfold chance, moving, E; simpl. rewrite n4, n4', n0, (below_true _ 0), !(below_false _ 4) by lra.
    replace (share 4 1) with (1 / 2 * (1 / 2)) by (unfold share; simpl; field). rewrite sqrt_square; lra.
Qed.
Lemma norm_one (l : list bool) v : In (l, v) [([true; false; false; false], 2); ([false; true; false; false], 2);
  ([false; false; true; false], 2); ([false; false; false; true], 2)] ->
  norm (mask l [2; 2; 2; 2]) = v /\ norm (mask l [-2; -2; -2; -2]) = v /\ norm (mask l [0; 0; 0; 0]) = 0.
Proof. simpl. intros [e|[e|[e|[e|[]]]]]; injection e as <- <-; repeat split; norm_of. Qed.
Lemma one : with_mask 4 1 4 [2; 2; 2; 2] moving = 2 /\ without 4 [2; 2; 2; 2] moving = 2.
Proof.
  split.
  - unfold with_mask, avg, masks. cbn [map app length total fold_right].
    unfold h, chance, moving, E. cbn [map total fold_right fst snd].
    repeat match goal with |- context [mask ?l [2; 2; 2; 2]] =>
      destruct (norm_one l 2 ltac:(simpl; tauto)) as (e1 & e2 & e3); rewrite ?e1, ?e2, ?e3; clear e1 e2 e3 end.
    rewrite (Rmin_right 2) by lra. rewrite !(below_true _ 2), !(below_true _ 0) by lra. simpl. lra.
  - unfold without, h, chance, moving, E; simpl. rewrite n4, n4', n0, (below_true _ 0), !(below_false _ 4), Rmin_right by lra. lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim _ _ _ _ _ 1 satisfiable). destruct one as [e1 e2]. rewrite e1, e2 in claim.
  specialize (claim ltac:(lra)). lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d k C w p kappa A e. pose proof (without_pos _ _ _ _ _ A) as W. destruct A as ((k0 & kd) & C0 & l & nz & lp & _ & _ & cond).
  pose proof (lower d k C w p ltac:(lia) C0 l lp) as lo. pose proof (upper d k C w p ltac:(lia) C0 l lp cond) as up.
  rewrite e in lo, up. pose proof (share_pos d k k0 ltac:(lia)).
  assert (kappa <= 1) by nra. assert (share d k <= kappa) by nra. apply Rle_ge.
  apply (Rmult_le_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.
