(* gip.eq5: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: eq. 5.
   MSE = E|g + Z|^2 = E|g (.) I - g|^2 + E|Z (.) I|^2. *)
From kernel Require Import definitions lemmas.

(* Z ~ N(0, s^2 I), s = sigma C *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d s g I, length g = d -> length I = d -> 0 < s ->
  ex e (fun o => square (add g (scale s (noise n d o))))
  = square (sub (mask I g) g) + ex e (fun o => square (mask I (scale s (noise n d o)))).
(* for every outcome Z *)
Definition correction : Prop := forall d g Z I, length g = d -> length Z = d -> length I = d ->
  square (sub (mask I (add g Z)) g) = square (sub (mask I g) g) + square (mask I Z).
