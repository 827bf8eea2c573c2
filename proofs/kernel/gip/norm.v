(* gip.norm: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: section 5, text before eq. 5.
   Under Assumption 1 (g ~ N(0, sigma_g^2)) we have E|g|_2 = d sigma_g. *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d s, (0 < d)%nat -> 0 < s -> has e (fun o => norm (scale s (noise n d o))) /\
  ex e (fun o => norm (scale s (noise n d o))) = INR d * s.
(* at most s sqrt d *)
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d s, (0 < d)%nat -> 0 < s -> has e (fun o => norm (scale s (noise n d o))) ->
  ex e (fun o => norm (scale s (noise n d o))) <= s * sqrt (INR d).
