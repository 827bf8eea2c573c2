(* gep.appB.memory: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Appendix B, Table 4.
   Beyond the n private gradients GEP stores max(0, (m - n + k) p + m k) floating-point numbers. *)
From kernel Require Import definitions lemmas.

(* first m anchor gradients, basis and anchor embeddings; then n private gradients, basis and their embeddings; beyond n p *)
Definition held (m n p k : Z) : Z := (Z.max (m * p + k * p + m * k) (n * p + k * p + n * k) - n * p)%Z.
Definition stated (m n p k : Z) : Z := Z.max 0 ((m - n + k) * p + m * k).
Definition printed : Prop := forall m n p k, (0 < m)%Z -> (0 < n)%Z -> (0 < k <= p)%Z -> stated m n p k = held m n p k.
(* if and only if m >= n *)
Definition correction : Prop := forall m n p k, (0 < m)%Z -> (0 < n)%Z -> (0 < k <= p)%Z ->
  (stated m n p k = held m n p k <-> (n <= m)%Z).

(* m = 1, n = 3, p = 2, k = 1: 5 are held beside the private gradients, printed 0 *)
Theorem printed_is_false : ~ printed.
Proof. intro claim. specialize (claim 1 3 2 1 ltac:(lia) ltac:(lia) ltac:(lia))%Z. discriminate claim. Qed.
Theorem correction_holds : correction.
Proof.
  intros m n p k m0 n0 [k0 kp]. unfold stated, held. split.
  - intro e. destruct (Z.le_gt_cases n m) as [l|l]; [exact l|exfalso].
    assert (m * p < n * p)%Z by nia. assert (m * k < n * k)%Z by nia. nia.
  - intro l. assert (n * p <= m * p)%Z by nia. assert (n * k <= m * k)%Z by nia. nia.
Qed.
