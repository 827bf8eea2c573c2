(* lf.lem3.2b: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.2, second part.
   Let s^{B,b}(theta') and s^{B,a}(theta') be the biased signal of the trainable parameters before and after freezing, then |s^{B,a}(theta')| >= |s^{B,b}(theta')|. *)
From kernel Require Import definitions lemmas.

From kernel Require Import lf.lem3_2a.
Definition signal_before d C (gs : list sample) : vec := average d (map (before C) gs).
Definition signal_after d C (gs : list sample) : vec := average d (map (after C) gs).
Definition batch d (gs : list sample) : Prop := gs <> [] /\ Forall (fun g => length (fst g) = d) gs.
Definition printed : Prop := forall d C gs, 0 < C -> batch d gs ->
  norm (signal_before d C gs) <= norm (signal_after d C gs).
(* no two trainable parts at an obtuse angle *)
Definition correction : Prop := forall d C gs, 0 < C -> batch d gs ->
  (forall g g', In g gs -> In g' gs -> 0 <= dot (fst g) (fst g')) ->
  norm (signal_before d C gs) <= norm (signal_after d C gs).
