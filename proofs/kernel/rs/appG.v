(* rs.appG: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix G, eq. 113 to 116.
   Supposing kappa = sqrt(1 - r), the bound (113) is written U(r) = Delta_C / sqrt(1 - r) + sqrt(1 - r) Delta_sigma (114), and r* = 1 - Delta_C / Delta_sigma
   is best (116), or 0 where Delta_C > Delta_sigma. *)
From kernel Require Import definitions lemmas.

(* eq. 113 with the paper's kappa = sqrt(1 - r) *)
Definition bound (DC DS g r : R) : R := 1 / sqrt (1 - r) * DC + (1 - r) / sqrt (1 - r) * g * DS.
Definition best (DC DS : R) : R := if Rle_dec DC DS then 1 - DC / DS else 0.
Definition printed : Prop := forall DC DS g, 0 < DC -> 0 < DS -> 0 < g ->
  forall r, 0 <= r < 1 -> bound DC DS g (best DC DS) <= bound DC DS g r.
Definition correction : Prop := forall DC DS g, 0 < DC -> 0 < DS -> 0 < g ->
  forall r, 0 <= r < 1 -> bound DC DS g (best DC (g * DS)) <= bound DC DS g r.
