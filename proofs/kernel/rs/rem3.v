(* rs.rem3: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Remark 3.
   "RS introduces two factors: 1/kappa, (1 - r)/kappa. The noise term is reduced by (1 - r)/kappa while the remaining terms are enlarged by 1/kappa:
   a trade-off is established. The respective magnitude of Delta_sigma and other terms determines whether it is a gain or loss to apply RS." *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3.
(* reduced and enlarged, for the kappa of Lemma 3.3 at r > 0 *)
Definition printed : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> share d k / kappa < 1 /\ 1 / kappa > 1.
(* the right side of Theorem 3.5 without bias at learning rate g: A = G C^2 / 2, D = Delta_sigma, x = 1 - r *)
Definition bound (kappa x Delta A D T g : R) : R := 1 / kappa * (Delta / (g * T) + g * A) + x / kappa * (g * D).
(* kappa <= sqrt(1 - r): at every learning rate some other one without a mask has a bound that is no larger, whatever the noise D *)
Definition correction : Prop := forall kappa x Delta A D T, 0 < x <= 1 -> 0 < kappa <= sqrt x ->
  0 <= Delta -> 0 <= A -> 0 <= D -> 0 < T ->
  forall g, 0 < g -> exists g', 0 < g' /\ bound 1 1 Delta A D T g' <= bound kappa x Delta A D T g.
