(* rs.cor_c11: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Corollary C.1.1 (eq. 91).
   With gamma = 1/(G sqrt T), B = sqrt T and the noise of Theorem C.1 the bound is that of eq. 91, which is right. Stated as printed is the sentence before it: "the
   following corollary proves that the upper bound of true gradient norm decreases w.r.t. iterations T". *)
From kernel Require Import definitions lemmas.

(* eq. 91 without bias; sampling rate q = B / N = sqrt T / N; u, v are the constants of Theorem C.1 (eps < v q^2 T) *)
Definition rate (N T : R) : R := sqrt T / N.
Definition Delta_eps (d C u q delta eps T : R) : R :=
  d * C ^ 2 * u ^ 2 * q ^ 2 * ln (1 / delta) / (2 * sqrt T * eps ^ 2).
Definition bound (kappa r Delta G C d u delta eps N T : R) : R :=
  1 / kappa * (Delta * G / sqrt T + C ^ 2 / (2 * sqrt T))
  + (1 - r) / kappa * Delta_eps d C u (rate N T) delta eps T.
Definition allowed (v eps N T : R) : Prop := 1 <= T /\ sqrt T <= N /\ eps < v * rate N T ^ 2 * T.
(* u and v are constants that the theorem does not give *)
Definition printed : Prop := exists u v, 0 < u /\ 0 < v /\
  forall kappa r Delta G C d delta eps N, 0 <= r < 1 -> 1 - r <= kappa <= 1 ->
  0 < Delta -> 0 < G -> 0 < C -> 1 <= d -> 0 < delta < 1 -> 0 < eps -> 1 <= N ->
  forall T T', T < T' -> allowed v eps N T -> allowed v eps N T' ->
  bound kappa r Delta G C d u delta eps N T' <= bound kappa r Delta G C d u delta eps N T.

Lemma root_20 : sqrt 400 = 20. Proof. replace 400 with (20 * 20) by ring. apply sqrt_square; lra. Qed.
Lemma root_40 : sqrt 1600 = 40. Proof. replace 1600 with (40 * 40) by ring. apply sqrt_square; lra. Qed.
(* G = C = Delta_L = 1, r = 0, N = d = 400, u^2 log(1/delta) / eps^2 = 8: 0.275 at T = 400 and 0.4375 at T = 1600 *)
Lemma values u eps : 0 < u -> 0 < eps -> let delta := exp (- (8 * eps ^ 2 / u ^ 2)) in
  bound 1 0 1 1 1 400 u delta eps 400 400 = 11 / 40 /\ bound 1 0 1 1 1 400 u delta eps 400 1600 = 7 / 16.
Proof.
  intros u0 e0 delta. assert (l : ln (1 / delta) = 8 * eps ^ 2 / u ^ 2).
  { unfold delta. replace (1 / exp (- (8 * eps ^ 2 / u ^ 2))) with (exp (8 * eps ^ 2 / u ^ 2)) by (rewrite exp_Ropp; field; apply Rgt_not_eq, exp_pos).
    apply ln_exp. }
  split; unfold bound, Delta_eps, rate; rewrite l, ?root_20, ?root_40; field; lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intros (u & v & u0 & v0 & claim). set (eps := Rmin 1 (v / 2)).
  assert (e0 : 0 < eps) by (apply Rmin_glb_lt; lra). assert (ev : eps <= v / 2) by apply Rmin_r.
  destruct (values u eps u0 e0) as [a b].
  assert (0 < 8 * eps ^ 2 / u ^ 2) by (apply Rdiv_lt_0_compat; nra).
  assert (exp (- (8 * eps ^ 2 / u ^ 2)) < 1) by (rewrite <- exp_0; apply exp_increasing; lra).
  pose proof (exp_pos (- (8 * eps ^ 2 / u ^ 2))).
  assert (h : bound 1 0 1 1 1 400 u (exp (- (8 * eps ^ 2 / u ^ 2))) eps 400 1600
              <= bound 1 0 1 1 1 400 u (exp (- (8 * eps ^ 2 / u ^ 2))) eps 400 400).
  { apply claim; try lra; unfold allowed, rate; rewrite ?root_20, ?root_40; repeat split; lra. }
  rewrite a, b in h. lra.
Qed.
