(* gep.eq12: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: proof of Theorem 3.3, eq. 12.
   E L(thetabar) - L(theta_opt) <= beta/(2T) |theta_0 - theta_opt| + sigma^2/(beta n^2) (k + (p/T) sum_t r_t^2), for L convex, 1-Lipschitz and beta-smooth, eta = 1/beta,
   thetabar = (1/T) sum_{t=1}^T theta_t, theta_{t+1} = theta_t - eta (grad L(theta_t) + zeta_t). *)
From kernel Require Import definitions lemmas.

(* The case of one step, T = 1, in one direction: k = 1, no residuals, all gradients along one coordinate x.
   L is a function of it with derivative L'; s = sigma / n; e is the expectation over the step's noise z of mean 0 and variance 1. *)
Definition convex (L : R -> R) (L' : R -> R) : Prop := forall x y, L x + L' x * (y - x) <= L y.
Definition nice (beta : R) (L L' : R -> R) : Prop :=
  (forall x, derivable_pt_lim L x (L' x)) /\ convex L L' /\
  (forall x, Rabs (L' x) <= 1) /\ forall x y, Rabs (L' x - L' y) <= beta * Rabs (x - y).
Definition step (beta s : R) (L' : R -> R) (x z : R) : R := x - 1 / beta * (L' x + s * z).
(* the noise of Theorem 3.2: sigma = 2 sqrt(2 T log(1/delta)) / eps, T = n beta eps / sqrt p = 1 *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (z : O -> R),
  has e z /\ ex e z = 0 /\ has e (fun o => z o * z o) /\ ex e (fun o => z o * z o) = 1 /\
  forall beta n p eps delta L L' x xmin, 0 < beta -> 0 < n -> 1 <= p -> 0 < eps -> 0 < delta < 1 -> eps < 2 * ln (1 / delta) ->
  n * beta * eps / sqrt p = 1 -> nice beta L L' -> (forall y, L xmin <= L y) ->
  let sigma := 2 * sqrt (2 * ln (1 / delta)) / eps in
  has e (fun o => L (step beta (sigma / n) L' x (z o))) ->
  ex e (fun o => L (step beta (sigma / n) L' x (z o))) - L xmin
  <= beta / 2 * Rabs (x - xmin) + sigma ^ 2 / (beta * n ^ 2) * 1.
