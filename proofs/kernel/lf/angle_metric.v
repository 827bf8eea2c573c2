(* lf.angle_metric: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: section 3.3, after Lemma 3.1.
   gamma_t is an effective metric for utility: a larger bias angle makes the bound larger, a smaller one smaller. *)
From kernel Require Import definitions lemmas.

(* progress of a step of size eta along the signal s on f = |theta|^2 / 2 at theta, whose gradient is theta *)
Definition progress (eta : R) (theta s : vec) : R := square theta / 2 - square (sub theta (scale eta s)) / 2.
Definition printed : Prop := forall d eta theta s s', length theta = d -> length s = d -> length s' = d -> 0 < eta ->
  0 < norm theta -> 0 < norm s -> 0 < norm s' ->
  angle theta s < angle theta s' -> progress eta theta s' <= progress eta theta s.
(* at the same norm of the signal it is *)
Definition correction : Prop := forall d eta theta s s', length theta = d -> length s = d -> length s' = d -> 0 < eta ->
  0 < norm theta -> 0 < norm s -> 0 < norm s' -> norm s = norm s' ->
  angle theta s < angle theta s' -> progress eta theta s' <= progress eta theta s.
