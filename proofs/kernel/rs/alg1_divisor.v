(* rs.alg1.divisor: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Algorithm 1, lines 3 to 6.
   The sum over the drawn batch and its noise N(0, C^2 sigma^2 I) are divided by the size b of that batch, and accounted for as a Gaussian mechanism
   of noise multiplier sigma: one example may move what is released by C / b, b the size by which the noise is divided. *)
From kernel Require Import definitions lemmas.

Definition clipped (C : R) (m : list bool) (gs : list vec) : list vec := map (fun g => clip C (mask m g)) gs.
Definition released (d : nat) (C : R) (m : list bool) (gs : list vec) : vec := average d (clipped C m gs).
Definition batch (d : nat) (gs : list vec) : Prop := gs <> [] /\ Forall (fun g => length g = d) gs.
Definition moved d C m (g : vec) gs : R := norm (sub (released d C m (g :: gs)) (released d C m gs)).
(* adding the example g moves the average by at most C / (b + 1), the sensitivity that the account takes; or by C / b, if it takes the other size *)
Definition printed : Prop := forall d C m g gs, 0 < C -> length m = d -> length g = d -> batch d gs ->
  moved d C m g gs <= C / INR (length (g :: gs)) \/ moved d C m g gs <= C / INR (length gs).
Definition correction : Prop := forall d C m g gs, 0 < C -> length m = d -> length g = d -> batch d gs ->
  moved d C m g gs <= 2 * C / INR (length (g :: gs)).
