(* gip.eq6: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: eq. 6.
   E|Z (.) I|^2 = sigma^2 C^2 k d for an index set I with K = k d ones and Z ~ N(0, sigma^2 C^2). *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K s I, In I (masks d K) -> ex e (fun o => square (mask I (scale s (noise n d o)))) = s ^ 2 * INR K.
