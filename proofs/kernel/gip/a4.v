(* gip.a4: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.4, text after Proposition 3.
   As the index sensitivity is large, randomised response has p close to 1/2 and its output loses the meaning of pruning; meant, in a comparison of the two: the Mallows mechanism is better. *)
From kernel Require Import definitions lemmas.

From kernel Require Import gip.prop3 gip.thm1.
(* At the same budget and sensitivity both have the same theta = log(p / (1 - p)) = eps_2 / C_1. How much the output tells of the reference I0:
   the chance that a one of I0 is kept less the chance that a zero of it is turned into a one. *)
Definition one_at (j : nat) (I : list bool) : R := if nth j I false then 1 else 0.
Definition mallows_chance (d K : nat) (theta : R) (I0 : list bool) (j : nat) : R :=
  over_masks d K (fun I => mallows d K theta I0 I * one_at j I).
Definition contrast (d K : nat) (theta : R) (I0 : list bool) (i j : nat) : R :=
  mallows_chance d K theta I0 i - mallows_chance d K theta I0 j.
Definition response_contrast (p : R) : R := p - (1 - p).
Definition printed : Prop := forall d K p I0 i j, (0 < K < d)%nat -> 1 / 2 < p < 1 -> In I0 (masks d K) -> (i < d)%nat -> (j < d)%nat ->
  nth i I0 false = true -> nth j I0 false = false ->
  response_contrast p <= contrast d K (ln (p / (1 - p))) I0 i j.
(* given that its output has K ones, randomised response is the Mallows law, and at distance h both have the loss theta h *)
Definition correction : Prop := forall d K p I0 I, (K <= d)%nat -> 1 / 2 < p < 1 -> In I0 (masks d K) -> In I (masks d K) ->
  response p I0 I / over_masks d K (response p I0) = mallows d K (ln (p / (1 - p))) I0 I.
