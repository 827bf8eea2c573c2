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
