(* rf.momentum: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 3.4.
   With v_{t+1} = mu v_t + g_{t+1}, and v^ the velocity without its noise, v_{t+1} - v^_{t+1} = (1 + mu + ... + mu^t) N(0, C^2 sigma^2 I). *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.appH.
(* the law of the right side has the variance (1 + mu + ... + mu^t)^2 C^2 sigma^2 *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall mu s t, 0 < mu < 1 -> 0 < s -> variance e (velocity mu 1 s n t) = (weights mu t * s) ^ 2.
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall mu s t, 0 < mu < 1 -> 0 < s -> variance e (velocity mu 1 s n t) = s ^ 2 * (1 - mu ^ (2 * t)) / (1 - mu ^ 2).

Theorem correction_holds : correction.
Proof.
  intros O e n noise mu s t [a b] s0. unfold variance. destruct (squares O e n noise mu 1 s t) as [_ h].
  assert (0 < 1 - mu ^ 2) by nra. apply (Rmult_eq_reg_l (1 - mu ^ 2)); [|lra]. rewrite h. field; lra.
Qed.
(* mu = 1/2, two steps: the variance is 5/4, printed 9/4 *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & noise & claim). specialize (claim (1 / 2) 1 2%nat ltac:(lra) ltac:(lra)).
  rewrite (correction_holds O e n noise (1 / 2) 1 2%nat ltac:(lra) ltac:(lra)) in claim. simpl in claim. lra.
Qed.
