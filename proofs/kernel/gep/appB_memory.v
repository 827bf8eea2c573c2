(* gep.appB.memory: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Appendix B, Table 4.
   "Computational and memory costs of a single power iteration in Algorithm 1. [...] The memory cost is measured by the number of floating-point numbers we need to store":
   max(0, (m - n + k) p + m k), of the "additional costs" over conventional gradient perturbation, which stores n private gradients.
   Of the power iteration, as the caption says, it holds. Refuted is the reading as the additional memory of all of GEP.
   Doubt: which vectors are held at a time is ours; the paper gives the table alone. *)
From kernel Require Import definitions lemmas.

Definition stated (m n p k : Z) : Z := Z.max 0 ((m - n + k) * p + m * k).
(* in a power iteration: m anchor gradients, basis and anchor embeddings; what they need beyond the n p that are there anyway *)
Definition iteration (m n p k : Z) : Z := Z.max 0 (m * p + k * p + m * k - n * p)%Z.
Definition printed : Prop := forall m n p k, (0 < m)%Z -> (0 < n)%Z -> (0 < k <= p)%Z -> stated m n p k = iteration m n p k.
(* all of GEP: first the power iteration, then n private gradients, basis and their embeddings; the larger of both, beyond n p *)
Definition held (m n p k : Z) : Z := (Z.max (m * p + k * p + m * k) (n * p + k * p + n * k) - n * p)%Z.
Definition reading : Prop := forall m n p k, (0 < m)%Z -> (0 < n)%Z -> (0 < k <= p)%Z -> stated m n p k = held m n p k.
(* if and only if m >= n *)
Definition correction : Prop := forall m n p k, (0 < m)%Z -> (0 < n)%Z -> (0 < k <= p)%Z ->
  (stated m n p k = held m n p k <-> (n <= m)%Z).

Theorem printed_holds : printed.
Proof. intros m n p k _ _ _. unfold stated, iteration. f_equal. ring. Qed.
(* m = 1, n = 4, p = 6, k = 2: 20 are held beside the private gradients, printed 0 *)
Theorem reading_is_false : ~ reading.
Proof. intro claim. specialize (claim 1 4 6 2 ltac:(lia) ltac:(lia) ltac:(lia))%Z. discriminate claim. Qed.
Theorem correction_holds : correction.
Proof.
  intros m n p k m0 n0 [k0 kp]. unfold stated, held. split.
  - intro e. destruct (Z.le_gt_cases n m) as [l|l]; [exact l|exfalso].
    assert (m * p < n * p)%Z by nia. assert (m * k < n * k)%Z by nia. nia.
  - intro l. assert (n * p <= m * p)%Z by nia. assert (n * k <= m * k)%Z by nia. nia.
Qed.
