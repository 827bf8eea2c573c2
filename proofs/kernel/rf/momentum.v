(* rf.momentum: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 3.4.
   With v_{t+1} = mu v_t + g_{t+1}, and v^ the velocity without its noise, v_{t+1} - v^_{t+1} = (1 + mu + ... + mu^t) N(0, C^2 sigma^2 I). *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.appH.
(* the law of the right side has the variance (1 + mu + ... + mu^t)^2 C^2 sigma^2 *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall mu s t, 0 < mu < 1 -> 0 < s -> variance e (velocity mu 1 s n t) = (weights mu t * s) ^ 2.
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall mu s t, 0 < mu < 1 -> 0 < s -> variance e (velocity mu 1 s n t) = s ^ 2 * (1 - mu ^ (2 * t)) / (1 - mu ^ 2).
