(* gep.lower_variance: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 1, second contribution.
   "we show that GEP returns an unbiased estimator of target private gradient with much lower perturbation variance than original gradient perturbation."
   Stated is "lower", for a residual clip below the gradients' own. Doubt: the paper argues for small residuals; how small, `correction` says. *)
From kernel Require Import definitions lemmas.

(* Noise energies at the same privacy: plain perturbation has p S^2 sigma^2. GEP's embedding (k entries, clip S) and residual (p entries, clip S2) each have
   sqrt 2 times the noise multiplier, so that the pair costs what one release of multiplier sigma costs. *)
Definition plain (p S sigma : R) : R := p * (S * sigma) ^ 2.
Definition embedded (k p S S2 sigma : R) : R := k * (S * (sqrt 2 * sigma)) ^ 2 + p * (S2 * (sqrt 2 * sigma)) ^ 2.
Definition printed : Prop := forall k p S S2 sigma, 1 <= k < p -> 0 < S2 < S -> 0 < sigma ->
  embedded k p S S2 sigma < plain p S sigma.
Definition correction : Prop := forall k p S S2 sigma, 1 <= k < p -> 0 < S -> 0 < S2 -> 0 < sigma ->
  (embedded k p S S2 sigma < plain p S sigma <-> k / p + (S2 / S) ^ 2 < 1 / 2).

Lemma two : sqrt 2 * sqrt 2 = 2. Proof. apply sqrt_sqrt. lra. Qed.
Lemma form k p S S2 sigma : 0 < p -> 0 < S -> embedded k p S S2 sigma = 2 * (k / p + (S2 / S) ^ 2) * plain p S sigma.
Proof.
  intros. unfold embedded, plain. replace ((S * (sqrt 2 * sigma)) ^ 2) with (S ^ 2 * (sqrt 2 * sqrt 2) * sigma ^ 2) by ring.
  replace ((S2 * (sqrt 2 * sigma)) ^ 2) with (S2 ^ 2 * (sqrt 2 * sqrt 2) * sigma ^ 2) by ring. rewrite two. field. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros k p S S2 sigma [k1 kp] S0 S20 s0. rewrite form by lra. assert (P : 0 < plain p S sigma).
  { unfold plain. assert (0 < S * sigma) by nra. apply Rmult_lt_0_compat; [lra|]. simpl. nra. }
  set (a := k / p + (S2 / S) ^ 2). split; intro h; [|nra].
  apply (Rmult_lt_reg_r (plain p S sigma)); [exact P|]. lra.
Qed.
(* k = 1, p = 100, S = 10, S_2 = 9: 2 (1/100 + 81/100) = 41/25 times the variance *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (h : 1 / 100 + (9 / 10) ^ 2 < 1 / 2) by (apply (correction_holds 1 100 10 9 1); try lra; apply claim; lra). simpl in h. lra.
Qed.
