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

(* eigenvalues (1, 1, 0): the trace is 2, not 1 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 3%nat [1; 1; 0] 1 1).
  assert (bound [1; 1; 0] 1 = 1 + 1 * 1 ^ 2 * INR 3).
  { apply claim; try lra; [|unfold deficient; simpl; auto]. unfold spectrum. split; [reflexivity|]. split; [repeat constructor; lra | simpl; auto]. }
  unfold bound in H. simpl in H. lra.
Qed.
Lemma trace l a : Forall (fun b => 0 <= b <= a) l -> 0 <= total l <= INR (length l) * a.
Proof. induction 1; [simpl; lra|]. cbn [length]. rewrite S_INR. cbn [total fold_right]. fold (total l). lra. Qed.
Lemma member l a : Forall (fun b => 0 <= b <= a) l -> In a l -> a <= total l.
Proof. induction 1; simpl; [tauto|]. intros [->|i].
  - pose proof (trace _ _ H0). fold (total l). lra.
  - specialize (IHForall i). fold (total l). lra. Qed.
Theorem correction_holds : correction.
Proof.
  intros d l a sigma (e & F & i) a0. unfold bound. rewrite e. pose proof (trace l a F) as [t0 t1]. pose proof (member l a F i).
  rewrite e in t1. assert (0 <= 1 + INR d * sigma ^ 2) by (pose proof (pos_INR d); nra). split; apply Rmult_le_compat_r; lra.
Qed.
