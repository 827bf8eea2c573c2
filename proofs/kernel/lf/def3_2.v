(* lf.def3.2: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Definition 3.2.
   gamma_t, the angle between grad f_t and s_t^P, "can be decomposed into gamma^B and gamma^BP which is the angle between grad f_t and s_t^B, and between s_t^B and s_t^P:
   gamma_t = gamma_t^B + gamma_t^BP". *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall d f sB sP, length f = d -> length sB = d -> length sP = d ->
  0 < norm f -> 0 < norm sB -> 0 < norm sP -> angle f sP = angle f sB + angle sB sP.
