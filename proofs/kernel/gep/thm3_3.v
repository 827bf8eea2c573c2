(* gep.thm3.3: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: Theorem 3.3.
   Suppose L is 1-Lipschitz, convex and beta-smooth. If eta = 1/beta, T = n beta eps / sqrt p, thetabar = (1/T) sum_{t=1}^T theta_t, then
   E L(thetabar) - L(theta_opt) <= O(sqrt(k log(1/delta)) / (n eps) + rbar sqrt(p log(1/delta)) / (n eps)). *)
From kernel Require Import definitions lemmas.

From kernel Require Import gep.eq12.
(* As in gep.eq12 for one step, T = 1, k = 1, no residuals (rbar = 0); c is the constant of the O, which may depend on beta and the distance D = |theta_0 - theta_opt|. *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (z : O -> R),
  has e z /\ ex e z = 0 /\ has e (fun o => z o * z o) /\ ex e (fun o => z o * z o) = 1 /\
  forall beta D, 0 < beta -> 0 < D -> exists c, forall n p eps delta L L' x xmin,
  0 < n -> 1 <= p -> 0 < eps -> 0 < delta < 1 -> eps < 2 * ln (1 / delta) ->
  n * beta * eps / sqrt p = 1 -> nice beta L L' -> (forall y, L xmin <= L y) -> Rabs (x - xmin) = D ->
  let sigma := 2 * sqrt (2 * ln (1 / delta)) / eps in
  has e (fun o => L (step beta (sigma / n) L' x (z o))) ->
  ex e (fun o => L (step beta (sigma / n) L' x (z o))) - L xmin <= c * (sqrt (ln (1 / delta)) / (n * eps)).
