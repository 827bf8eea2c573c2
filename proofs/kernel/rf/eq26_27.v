(* rf.eq26-27: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix A (eq. 26, 27).
   "In the extreme case that Sigma = lambda I, this will scale linearly in d, while in the opposite extreme of a rank deficient covariance matrix, the trace is
   constant in d. Thus, in the former case MSE >= lambda d + lambda sigma^2 d^2, while in the latter MSE >= lambda + lambda sigma^2 d".
   Stated as printed is the sentence on a rank deficient matrix alone; `correction` has (26) for Sigma = lambda I and (27) for rank one, where they are right.
   Doubt: if "the opposite extreme" means rank one, the sentence is true. *)
From kernel Require Import definitions lemmas.

(* the eigenvalues of a covariance; the bound of Theorem 1 is Tr (1 + d sigma^2) *)
Definition spectrum (d : nat) (l : vec) (largest : R) : Prop :=
  length l = d /\ Forall (fun a => 0 <= a <= largest) l /\ In largest l.
Definition bound (l : vec) (sigma : R) : R := total l * (1 + INR (length l) * sigma ^ 2).
Definition deficient (l : vec) : Prop := In 0 l.                                    (* rank below d *)
(* at one largest eigenvalue lambda *)
Definition printed : Prop := forall lambda, 0 < lambda -> exists trace, forall d l, spectrum d l lambda -> deficient l -> total l = trace.
(* (26) for equal eigenvalues, (27) for rank one; every other spectrum lies between *)
Definition correction : Prop := forall d l lambda sigma, spectrum d l lambda -> 0 < lambda ->
  bound (repeat lambda d) sigma = lambda * INR d + lambda * sigma ^ 2 * INR d ^ 2 /\
  bound (lambda :: repeat 0 (d - 1)) sigma = lambda + lambda * sigma ^ 2 * INR d /\
  lambda * (1 + INR d * sigma ^ 2) <= bound l sigma <= INR d * lambda * (1 + INR d * sigma ^ 2).

(* lambda = 1, eigenvalues (1, 0) and (1, 1, 0): the traces are 1 and 2 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct (claim 1 ltac:(lra)) as [t h].
  pose proof (h 2%nat [1; 0] ltac:(repeat split; [repeat constructor; lra | simpl; auto]) ltac:(unfold deficient; simpl; auto)) as a.
  pose proof (h 3%nat [1; 1; 0] ltac:(repeat split; [repeat constructor; lra | simpl; auto]) ltac:(unfold deficient; simpl; auto)) as b.
  unfold total in a, b. simpl in a, b. lra.
Qed.
Lemma trace l a : Forall (fun b => 0 <= b <= a) l -> 0 <= total l <= INR (length l) * a.
Proof. induction 1; [simpl; lra|]. cbn [length]. rewrite S_INR. cbn [total fold_right]. fold (total l). lra. Qed.
Lemma member l a : Forall (fun b => 0 <= b <= a) l -> In a l -> a <= total l.
Proof. induction 1; simpl; [tauto|]. intros [->|i].
  - pose proof (trace _ _ H0). fold (total l). lra.
  - specialize (IHForall i). fold (total l). lra. Qed.
Lemma total_repeat a n : total (repeat a n) = INR n * a.
Proof. induction n as [|n IH]; [simpl; ring|]. rewrite S_INR. cbn [repeat total fold_right]. fold (total (repeat a n)). rewrite IH. ring. Qed.
Theorem correction_holds : correction.
Proof.
  intros d l a sigma (e & F & i) a0. assert (d1 : (1 <= d)%nat) by (destruct l; [destruct i | simpl in e; lia]).
  split; [|split].
  - unfold bound. rewrite total_repeat, repeat_length. ring.
  - unfold bound. cbn [length total fold_right]. fold (total (repeat 0 (d - 1))). rewrite total_repeat, repeat_length.
    replace (S (d - 1)) with d by lia. ring.
  - unfold bound. rewrite e. pose proof (trace l a F) as [t0 t1]. pose proof (member l a F i).
    rewrite e in t1. assert (0 <= 1 + INR d * sigma ^ 2) by (pose proof (pos_INR d); nra). split; apply Rmult_le_compat_r; lra.
Qed.
