(* rs.cor_c11: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Corollary C.1.1 (eq. 91).
   With gamma = 1/(G sqrt T), B = sqrt T and the noise of Theorem C.1 the bound is that of eq. 91; the text above it says that it falls as T grows. *)
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
