(* lf.prop3.1.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Proposition 3.1 (1).
   Under Assumptions 3.1 and 3.2, E[gamma^{B,a}(theta')] <= E[gamma^{B,b}(theta')], gamma^B the angle between grad f and s^B. The proof adds E(gamma^{Uv,a}) >= E(gamma^{vw,b}). *)
From kernel Require Import definitions lemmas.

From kernel Require Import lf.lem3_2a lf.lem3_2b.
(* The batch is the whole data, so that there is nothing random; all angles are of the trainable parameters. *)
Definition longer (C : R) (v : vec) : bool := if Rlt_dec C (norm v) then true else false.     (* |g| > C *)
Definition clipped C gs := filter (fun g => longer C (full g)) gs.
Definition kept C gs := filter (fun g => negb (longer C (full g))) gs.
Definition trainable d (gs : list sample) : vec := average d (map fst gs).
Definition whole D (gs : list sample) : vec := average D (map full gs).
(* 3.1: the mean of the clipped gradients is closer in angle to the true gradient than that of the others: of the trainable parameters, and of all D *)
Definition assumption_3_1 d D C gs : Prop :=
  angle (trainable d gs) (trainable d (clipped C gs)) < angle (trainable d gs) (trainable d (kept C gs)) /\
  angle (whole D gs) (whole D (clipped C gs)) < angle (whole D gs) (whole D (kept C gs)).
(* 3.2: freezing does not change which gradients are clipped *)
Definition assumption_3_2 C (gs : list sample) : Prop := Forall (fun g => longer C (full g) = longer C (fst g)) gs.
(* what the proof adds: v and w are the sums of the unclipped and of the clipped gradients, U is the true signal *)
Definition added d C gs : Prop :=
  angle (sum d (map fst (kept C gs))) (sum d (map (before C) (clipped C gs)))
  <= angle (trainable d gs) (sum d (map fst (kept C gs))).
Definition printed : Prop := forall d D C gs, 0 < C -> batch d gs -> Forall (fun g => length (full g) = D) gs ->
  clipped C gs <> [] -> kept C gs <> [] ->
  0 < norm (trainable d gs) -> 0 < norm (signal_before d C gs) -> 0 < norm (signal_after d C gs) ->
  assumption_3_1 d D C gs -> assumption_3_2 C gs -> added d C gs ->
  angle (trainable d gs) (signal_after d C gs) <= angle (trainable d gs) (signal_before d C gs).
