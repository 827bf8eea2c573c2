(* rs.rem2: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Remark 2.
   "3.4 suggests that RS could impede the convergence of SGD with gradient clipping as 1/kappa > 1 for r > 0", kappa that of Lemma 3.3. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3.
Definition printed : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> 1 / kappa > 1.
Definition correction : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> 1 / kappa >= 1.
