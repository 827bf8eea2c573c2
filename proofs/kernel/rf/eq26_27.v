(* rf.eq26-27: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix A (eq. 26, 27).
   "In the extreme case that Sigma = lambda I, Tr Sigma will scale linearly in d, while in the opposite extreme of a rank deficient covariance matrix, the trace is
   constant in d": MSE >= lambda d + lambda sigma^2 d^2 and MSE >= lambda + lambda sigma^2 d. *)
From kernel Require Import definitions lemmas.

(* the eigenvalues of a covariance; the bound of Theorem 1 is Tr (1 + d sigma^2) *)
Definition spectrum (d : nat) (l : vec) (largest : R) : Prop :=
  length l = d /\ Forall (fun a => 0 <= a <= largest) l /\ In largest l.
Definition bound (l : vec) (sigma : R) : R := total l * (1 + INR (length l) * sigma ^ 2).
Definition deficient (l : vec) : Prop := In 0 l.                                    (* rank below d *)
(* a rank-deficient covariance has a trace, and so a bound, that its largest eigenvalue alone gives, for every d *)
Definition printed : Prop := forall d l lambda sigma, spectrum d l lambda -> 0 < lambda -> 0 < sigma -> deficient l ->
  bound l sigma = lambda + lambda * sigma ^ 2 * INR d.
Definition correction : Prop := forall d l lambda sigma, spectrum d l lambda -> 0 < lambda ->
  lambda * (1 + INR d * sigma ^ 2) <= bound l sigma <= INR d * lambda * (1 + INR d * sigma ^ 2).
