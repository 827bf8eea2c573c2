(* rs.rem2: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Remark 2.
   "Theorem 3.4 suggests that RS could impede the convergence of SGD with gradient clipping as 1/kappa > 1 for r > 0."
   With any kappa in (1 - r, 1), as Theorem 3.4 has it, 1/kappa > 1. Refuted is the reading with the kappa of Lemma 3.3, which its equation 11 determines.
   The hedged conclusion ("suggests", "could"), which section 7 keeps open, is not stated here. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3.
(* kappa as equation 11 determines it *)
Definition reading : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> 1 / kappa > 1.
Definition correction : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> 1 / kappa >= 1.

(* the second counterexample of rs.lem3.3: kappa = 1 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim _ _ _ _ _ 1 moving_satisfies). destruct one as [e1 e2]. rewrite e1, e2 in claim.
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
