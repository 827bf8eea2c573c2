(* rf.raise_noise: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 2.2, after Fig. 1.
   "For example, in addition to taking advantage of noise mitigation, we can also raise the noise to xi+ so that E |m xi+| matches E |xi|. This allows us to run more
   iterations T on the same privacy budget, which also implies better convergence by Theorem 2."
   Refuted is the reading that the bound of Theorem 2 without bias improves at every kappa >= 1 - r, which is all that the theorem says of kappa.
   Doubts: E |m xi+| = E |xi| is taken for the squared norms, sigma+ = sigma / sqrt(1 - r). T+ = T / (1 - r) is our step, not the paper's: what the budget allows without
   subsampling; with it T+ is larger. *)
From kernel Require Import definitions lemmas.

(* right side of Theorem 2 without bias at learning rate g; A = G C^2 / 2, D = Delta_DP, x = 1 - r; the noise D / x gives D back *)
Definition bound (kappa x Delta A D T g : R) : R := 1 / kappa * (Delta / (g * T) + g * A + x * g * D).
Definition raised (kappa x Delta A D T g : R) : R := bound kappa x Delta A (D / x) (T / x) g.
Definition reading : Prop := forall kappa x Delta A D T, 0 < x < 1 -> x <= kappa -> 0 < Delta -> 0 < A -> 0 < D -> 0 < T ->
  forall g, 0 < g -> exists g', 0 < g' /\ raised kappa x Delta A D T g' < bound 1 1 Delta A D T g.
(* if and only if kappa > sqrt(1 - r) *)
Definition correction : Prop := forall kappa x Delta A D T, 0 < x < 1 -> 0 < kappa -> 0 < Delta -> 0 < A -> 0 < D -> 0 < T ->
  ((forall g, 0 < g -> exists g', 0 < g' /\ raised kappa x Delta A D T g' < bound 1 1 Delta A D T g) <-> sqrt x < kappa).

(* x = kappa = 1/4: the tuned bound has 2 times its value *)
Lemma amgm p q g : 0 < p -> 0 < q -> 0 < g -> 4 * p * q <= (p / g + q * g) * (p / g + q * g).
Proof. intros. assert (h : (p / g + q * g) * (p / g + q * g) - 4 * p * q = (p / g - q * g) * (p / g - q * g)) by (field; lra).
  pose proof (Rle_0_sqr (p / g - q * g)) as s. unfold Rsqr in s. lra. Qed.
Lemma tuned p q : 0 < p -> 0 < q -> exists g, 0 < g /\ p / g + q * g = 2 * sqrt (p * q).
Proof.
  intros a b. exists (sqrt (p / q)). assert (0 < p / q) by (apply Rdiv_lt_0_compat; assumption).
  assert (s0 : 0 < sqrt (p / q)) by (apply sqrt_lt_R0; assumption). split; [exact s0|].
  assert (ss : sqrt (p / q) * sqrt (p / q) = p / q) by (apply sqrt_sqrt; lra). set (s := sqrt (p / q)) in *.
  assert (e : sqrt (p * q) = q * s).
  { replace (p * q) with (q * s * (q * s)); [apply sqrt_square; nra|].
    replace (q * s * (q * s)) with (q * q * (s * s)) by ring. rewrite ss. field; lra. }
  rewrite e. replace p with (q * (s * s)) at 1 by (rewrite ss; field; lra). field; lra.
Qed.
Lemma at_least p q g : 0 < p -> 0 < q -> 0 < g -> 2 * sqrt (p * q) <= p / g + q * g.
Proof.
  intros a b c. pose proof (amgm p q g a b c). assert (0 < p * q) by nra.
  assert (0 < p / g + q * g) by (assert (0 < p / g) by (apply Rdiv_lt_0_compat; assumption); nra).
  apply Rsqr_incr_0_var; [|lra]. unfold Rsqr.
  replace (2 * sqrt (p * q) * (2 * sqrt (p * q))) with (4 * (sqrt (p * q) * sqrt (p * q))) by ring. rewrite sqrt_sqrt by lra. lra.
Qed.
Lemma plain Delta A D T g : 0 < g -> 0 < T -> bound 1 1 Delta A D T g = (Delta / T) / g + (A + D) * g.
Proof. intros. unfold bound. field; split; lra. Qed.
Lemma raised_form kappa x Delta A D T g : 0 < kappa -> 0 < x -> 0 < g -> 0 < T ->
  raised kappa x Delta A D T g = / kappa * (x * (Delta / T) / g + (A + D) * g).
Proof. intros. unfold raised, bound. field; repeat split; lra. Qed.
Theorem correction_holds : correction.
Proof.
  intros kappa x Delta A D T [x0 x1] k0 D0 A0 D'0 T0. set (p := Delta / T). set (q := A + D).
  assert (p0 : 0 < p) by (apply Rdiv_lt_0_compat; assumption). assert (q0 : 0 < q) by (unfold q; lra).
  assert (xp : 0 < x * p) by nra. assert (pq : 0 < p * q) by nra.
  assert (es : sqrt (x * p * q) = sqrt x * sqrt (p * q)) by (rewrite Rmult_assoc; apply sqrt_mult; lra).
  assert (S0 : 0 < sqrt (p * q)) by (apply sqrt_lt_R0; exact pq).
  split.
  - intro h. destruct (tuned p q p0 q0) as (g & g0 & eg). destruct (h g g0) as (g' & g'0 & lt).
    rewrite plain, raised_form in lt by assumption. fold p q in lt. rewrite eg in lt.
    pose proof (at_least (x * p) q g' xp q0 g'0) as le. rewrite es in le. set (X := x * p / g' + q * g') in *.
    assert (/ kappa * X * kappa < 2 * sqrt (p * q) * kappa) by (apply Rmult_lt_compat_r; assumption).
    replace (/ kappa * X * kappa) with X in H by (field; lra). nra.
  - intros lt g g0. destruct (tuned (x * p) q xp q0) as (g' & g'0 & eg). exists g'. split; [exact g'0|].
    rewrite plain, raised_form by assumption. fold p q. rewrite eg, es.
    apply Rlt_le_trans with (2 * sqrt (p * q)); [|apply at_least; assumption].
    apply (Rmult_lt_reg_l kappa); [exact k0|]. rewrite <- Rmult_assoc, Rinv_r by lra. nra.
Qed.
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. assert (h : sqrt (1 / 4) < 1 / 4).
  { apply (correction_holds (1 / 4) (1 / 4) 1 1 1 1); try lra. apply claim; lra. }
  replace (1 / 4) with (1 / 2 * (1 / 2)) in h at 1 by lra. rewrite sqrt_square in h by lra. lra.
Qed.
