(* rs.fig1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 1.1, item (ii) and Fig. 1d.
   "Due to gradient clipping" the coordinates that are not zeroed have gradients of higher magnitude than without RS; the figure shows the ratio of the norms. *)
From kernel Require Import definitions lemmas.

Definition with_RS d C m (gs : list vec) : vec := average d (map (fun g => clip C (mask m g)) gs).
Definition without_RS d C m (gs : list vec) : vec := mask m (average d (map (clip C) gs)).     (* on the same coordinates *)
Definition printed : Prop := forall d C m gs, 0 < C -> length m = d -> gs <> [] -> Forall (fun g => length g = d) gs ->
  norm (without_RS d C m gs) <= norm (with_RS d C m gs).
(* true of one example, and the gain is at most |g| / |m (.) g| *)
Definition correction : Prop := forall d C m g, 0 < C -> length m = d -> length g = d ->
  norm (mask m (clip C g)) <= norm (clip C (mask m g)) /\
  norm (clip C (mask m g)) * norm (mask m g) <= norm (mask m (clip C g)) * norm g.
