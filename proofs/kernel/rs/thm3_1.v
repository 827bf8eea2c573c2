(* rs.thm3.1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.1; RF, section 3.
   Masking before clipping keeps the guarantee: what one example adds to the masked and clipped sum is at most C, as without a mask. *)
From kernel Require Import definitions lemmas.

Definition summed (d : nat) (C : R) (m : list bool) (gs : list vec) : vec := sum d (map (fun g => clip C (mask m g)) gs).
(* the sensitivity that the Gaussian mechanism is given, under adding one example; the mask is drawn without the data *)
Definition printed : Prop := forall d k C m g gs, 0 < C -> In m (masks d k) -> Forall (fun g => length g = d) (g :: gs) ->
  norm (sub (summed d C m (g :: gs)) (summed d C m gs)) <= C.
(* and 2C under replacing one *)
Definition correction : Prop := forall d k C m g g' gs, 0 < C -> In m (masks d k) -> Forall (fun g => length g = d) (g :: g' :: gs) ->
  norm (sub (summed d C m (g :: gs)) (summed d C m (g' :: gs))) <= 2 * C.
