(* gep.lower_variance: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 1, second contribution.
   "GEP returns an unbiased estimator of target private gradient with much lower perturbation variance than original gradient perturbation." *)
From kernel Require Import definitions lemmas.

(* Noise energies at the same privacy: plain perturbation has p S^2 sigma^2. GEP's embedding (k entries, clip S) and residual (p entries, clip S2) each have
   sqrt 2 times the noise multiplier, so that the pair costs what one release of multiplier sigma costs. *)
Definition plain (p S sigma : R) : R := p * (S * sigma) ^ 2.
Definition embedded (k p S S2 sigma : R) : R := k * (S * (sqrt 2 * sigma)) ^ 2 + p * (S2 * (sqrt 2 * sigma)) ^ 2.
Definition printed : Prop := forall k p S S2 sigma, 1 <= k < p -> 0 < S -> 0 < S2 <= S -> 0 < sigma ->
  embedded k p S S2 sigma < plain p S sigma.
Definition correction : Prop := forall k p S S2 sigma, 1 <= k < p -> 0 < S -> 0 < S2 -> 0 < sigma ->
  (embedded k p S S2 sigma < plain p S sigma <-> k / p + (S2 / S) ^ 2 < 1 / 2).
