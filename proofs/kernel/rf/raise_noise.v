(* rf.raise_noise: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 2.2, after Fig. 1.
   "We can also raise the noise to xi+ so that E |m xi+| matches E |xi|. This allows us to run more iterations T on the same privacy budget, which also implies
   better convergence by Theorem 2." sigma+ = sigma / sqrt(1 - r), T+ = T / (1 - r), kappa >= 1 - r. *)
From kernel Require Import definitions lemmas.

(* right side of Theorem 2 without bias at learning rate g; A = G C^2 / 2, D = Delta_DP, x = 1 - r; the noise D / x gives D back *)
Definition bound (kappa x Delta A D T g : R) : R := 1 / kappa * (Delta / (g * T) + g * A + x * g * D).
Definition raised (kappa x Delta A D T g : R) : R := bound kappa x Delta A (D / x) (T / x) g.
Definition printed : Prop := forall kappa x Delta A D T, 0 < x < 1 -> x <= kappa -> 0 < Delta -> 0 < A -> 0 < D -> 0 < T ->
  forall g, 0 < g -> exists g', 0 < g' /\ raised kappa x Delta A D T g' < bound 1 1 Delta A D T g.
(* if and only if kappa > sqrt(1 - r) *)
Definition correction : Prop := forall kappa x Delta A D T, 0 < x < 1 -> 0 < kappa -> 0 < Delta -> 0 < A -> 0 < D -> 0 < T ->
  ((forall g, 0 < g -> exists g', 0 < g' /\ raised kappa x Delta A D T g' < bound 1 1 Delta A D T g) <-> sqrt x < kappa).
