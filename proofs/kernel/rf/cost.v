(* rf.cost: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 4, Advantages of sparsity.
   The power method's basic operation W W^T V costs O(dbs), the projection V^T X costs O(dbn); freezing deletes a share r of the rows, and
   "b, s might also be able to be reduced. Overall, the computational cost is between O(1 - r) and O((1 - r)^3)." *)
From kernel Require Import definitions lemmas.

(* multiplications; d x s, d x b and d x n matrices *)
Definition power_method (d b s : R) : R := 2 * d * b * s.
Definition projection (d b n : R) : R := d * b * n.
(* d is scaled by x = 1 - r, b and s by something from x to 1: both costs are scaled by something between *)
Definition printed : Prop := forall d b s n x y z, 0 < d -> 0 < b -> 0 < s -> 0 < n -> 0 < x < 1 -> x <= y <= 1 -> x <= z <= 1 ->
  x ^ 3 * power_method d b s <= power_method (x * d) (y * b) (z * s) <= x * power_method d b s /\
  x ^ 3 * projection d b n <= projection (x * d) (y * b) n <= x * projection d b n.
(* another reading: with d, b and s scaled by x both reach the cubic end *)
Definition reading : Prop := forall d b s n x, 0 < d -> 0 < b -> 0 < s -> 0 < n -> 0 < x < 1 ->
  power_method (x * d) (x * b) (x * s) = x ^ 3 * power_method d b s /\
  projection (x * d) (x * b) n <= x ^ 3 * projection d b n.
Definition correction : Prop := forall d b s n x, 0 < d -> 0 < b -> 0 < s -> 0 < n -> 0 < x < 1 ->
  power_method (x * d) b s = x * power_method d b s /\ projection (x * d) b n = x * projection d b n /\
  power_method (x * d) (x * b) (x * s) = x ^ 3 * power_method d b s /\
  projection (x * d) (x * b) n = x ^ 2 * projection d b n.

Theorem printed_holds : printed.
Proof.
  intros d b s n x y z d0 b0 s0 n0 x0 [y0 y1] [z0 z1]. unfold power_method, projection.
  assert (P : 0 < 2 * d * b * s) by (repeat apply Rmult_lt_0_compat; lra). assert (Q : 0 < d * b * n) by (repeat apply Rmult_lt_0_compat; lra).
  replace (2 * (x * d) * (y * b) * (z * s)) with (x * (y * z) * (2 * d * b * s)) by ring. replace (x * d * (y * b) * n) with (x * y * (d * b * n)) by ring.
  assert (x * x <= y * z) by (apply Rmult_le_compat; lra). assert (y * z <= 1) by nra. assert (x * x <= y) by nra.
  replace (x ^ 3) with (x * (x * x)) by ring. repeat split; apply Rmult_le_compat_r; try lra; nra.
Qed.
(* r = 1/2, one of everything: the projection has 1/4, not at most 1/8 *)
Theorem reading_is_false : ~ reading.
Proof. intro claim. destruct (claim 1 1 1 1 (1 / 2)) as [_ h]; try lra. unfold projection in h. simpl in h. lra. Qed.
Theorem correction_holds : correction.
Proof. intros d b s n x d0 b0 s0 n0 x0. unfold power_method, projection. repeat split; ring. Qed.
