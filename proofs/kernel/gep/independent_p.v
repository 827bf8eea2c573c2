(* gep.independent_p: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.3, after Theorem 3.3.
   If the gradients stay in a k-dimensional subspace, rbar = 0 and the excess error is O(sqrt(k log(1/delta)) / (n eps)), independent of the ambient dimension p. *)
From kernel Require Import definitions lemmas.

From kernel Require Import gep.eq12.
(* At the theorem's T = n beta eps / sqrt p = 1, with all gradients on one line, k = 1: the error at every p is at most c times the rate, c independent of p. *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (z : O -> R),
  has e z /\ ex e z = 0 /\ has e (fun o => z o * z o) /\ ex e (fun o => z o * z o) = 1 /\
  forall beta D eps delta, 0 < beta -> 0 < D -> 0 < eps -> 0 < delta < 1 -> eps < 2 * ln (1 / delta) ->
  exists c, forall n p L L' x xmin, 0 < n -> 1 <= p ->
  n * beta * eps / sqrt p = 1 -> nice beta L L' -> (forall y, L xmin <= L y) -> Rabs (x - xmin) = D ->
  let sigma := 2 * sqrt (2 * ln (1 / delta)) / eps in
  has e (fun o => L (step beta (sigma / n) L' x (z o))) ->
  ex e (fun o => L (step beta (sigma / n) L' x (z o))) - L xmin <= c * (sqrt (ln (1 / delta)) / (n * eps)).
