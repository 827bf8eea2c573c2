(* lf.def3.2: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Definition 3.2.
   gamma_t, the angle between grad f_t and s_t^P, "can be decomposed into gamma^B and gamma^BP which is the angle between grad f_t and s_t^B, and between s_t^B and s_t^P:
   gamma_t = gamma_t^B + gamma_t^BP". *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall d f sB sP, length f = d -> length sB = d -> length sP = d ->
  0 < norm f -> 0 < norm sB -> 0 < norm sP -> angle f sP = angle f sB + angle sB sP.

(* grad f = (1, 0), s^B = (4, 3), s^P = (4, -3): gamma = gamma^B, and gamma^BP is not 0 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (n1 : norm [1; 0] = 1) by norm_of. assert (n5 : norm [4; 3] = 5) by norm_of. assert (n5' : norm [4; -3] = 5) by norm_of.
  specialize (claim 2%nat [1; 0] [4; 3] [4; -3] eq_refl eq_refl eq_refl ltac:(lra) ltac:(lra) ltac:(lra)).
  assert (e : cosine [1; 0] [4; 3] = cosine [1; 0] [4; -3]) by (unfold cosine; rewrite n1, n5, n5'; unfold dot; simpl; lra).
  unfold angle in claim at 1 2. rewrite e in claim. assert (z : angle [4; 3] [4; -3] = 0) by lra.
  assert (c : cosine [4; 3] [4; -3] = 1) by (rewrite <- cos_angle, z; apply cos_0).
  unfold cosine in c. rewrite n5, n5' in c. unfold dot in c. simpl in c. lra.
Qed.
