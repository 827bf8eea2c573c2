(* lf.lem3.2a: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.2, first part.
   |g_t^a(x_i)| <= |g_t^b(x_i)| for all x_i: freezing shortens every gradient, so that the trainable part of each clipped one grows. *)
From kernel Require Import definitions lemmas.

(* an example's gradient: the trainable part, and the part of the layers that are frozen *)
Definition sample : Type := vec * vec.
Definition full (g : sample) : vec := fst g ++ snd g.
Definition part (C : R) (whole own : vec) : vec := scale (Rmin 1 (C / norm whole)) own.   (* own share of a gradient clipped as a whole *)
Definition before (C : R) (g : sample) : vec := part C (full g) (fst g).
Definition after (C : R) (g : sample) : vec := part C (fst g) (fst g).
Definition printed : Prop := forall C g, 0 < C ->
  norm (fst g) <= norm (full g) /\ norm (before C g) <= norm (after C g).
