(* rf.lem2: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Lemma 2 (eq. 35); RS, Lemma B.1.
   "u in R^d is an arbitrary vector, m is a {0,1}^d random mask independent from u and subject to sum m = (1 - r)d: E |m (.) u| >= (1 - r)|u|."
   Read, as RF draws its masks (section 2.1), with a uniform mask. *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall d k u, (0 < k <= d)%nat -> length u = d ->
  share d k * norm u <= avg (masks d k) (fun m => norm (mask m u)).
(* with an upper bound *)
Definition correction : Prop := forall d k u, (0 < k <= d)%nat -> length u = d ->
  share d k * norm u <= avg (masks d k) (fun m => norm (mask m u)) <= sqrt (share d k) * norm u.

Theorem correction_holds : correction.
Proof.
  intros d k u [k0 kd] e. split; [|apply masked_norm_upper; [lia | exact e]].
  destruct (Req_dec (norm u) 0) as [z|nz].
  { rewrite z, Rmult_0_r. apply avg_nonneg, Forall_forall. intros; apply norm_nonneg. }
  pose proof (norm_nonneg u). assert (0 < norm u) by lra.
  apply (Rmult_le_reg_r (norm u)); [assumption|]. rewrite Rmult_assoc, norm_norm, <- (masked_square d k u) by (try exact e; lia).
  rewrite Rmult_comm, <- avg_scale. apply avg_le, Forall_forall. intros m _. rewrite <- norm_norm.
  apply Rmult_le_compat_r; [apply norm_nonneg | apply norm_mask].
Qed.
Theorem printed_holds : printed.
Proof. intros d k u kd e. apply (correction_holds d k u kd e). Qed.
(* both ends are reached: one entry of size 1, and entries of equal size, d = 4, one kept *)
Lemma satisfiable : avg (masks 4 1) (fun m => norm (mask m [1; 0; 0; 0])) = share 4 1 * norm [1; 0; 0; 0].
Proof.
  assert (n1 : norm [1; 0; 0; 0] = 1) by norm_of. assert (n0 : norm [0; 0; 0; 0] = 0) by norm_of.
  unfold avg, share. simpl. rewrite n1, n0. field.
Qed.
