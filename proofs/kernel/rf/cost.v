(* rf.cost: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 4, Advantages of sparsity.
   The power method's basic operation W W^T V costs O(dbs), the projection V^T X costs O(dbn); freezing deletes a share r of the rows, and b and s might be reduced too.
   "Overall, the computational cost is between O(1 - r) and O((1 - r)^3)." *)
From kernel Require Import definitions lemmas.

(* multiplications, d x s and d x b and d x n matrices *)
Definition power_method (d b s : R) : R := 2 * d * b * s.
Definition projection (d b n : R) : R := d * b * n.
(* with d, b and s scaled by x = 1 - r both reach the cubic end *)
Definition printed : Prop := forall d b s n x, 0 < d -> 0 < b -> 0 < s -> 0 < n -> 0 < x < 1 ->
  power_method (x * d) (x * b) (x * s) = x ^ 3 * power_method d b s /\
  projection (x * d) (x * b) n <= x ^ 3 * projection d b n.
Definition correction : Prop := forall d b s n x, 0 < d -> 0 < b -> 0 < s -> 0 < n -> 0 < x < 1 ->
  power_method (x * d) b s = x * power_method d b s /\ projection (x * d) b n = x * projection d b n /\
  power_method (x * d) (x * b) (x * s) = x ^ 3 * power_method d b s /\
  projection (x * d) (x * b) n = x ^ 2 * projection d b n.

(* r = 1/2, one of everything: the projection has 1/4, not at most 1/8 *)
Theorem printed_is_false : ~ printed.
Proof. intro claim. destruct (claim 1 1 1 1 (1 / 2)) as [_ h]; try lra. unfold projection in h. simpl in h. lra. Qed.
Theorem correction_holds : correction.
Proof. intros d b s n x d0 b0 s0 n0 x0. unfold power_method, projection. repeat split; ring. Qed.
