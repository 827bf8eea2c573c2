(* lf.appC.cos: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Appendix C.
   "v_3 = v_1 + v_2. Keeping v_1 the same, if the magnitude of v_2 increases, then the cosine similarity between v_1 and v_3 is larger, leading to a smaller angle." *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall d v1 v2 k, length v1 = d -> length v2 = d -> 0 < norm v1 -> 0 < norm v2 -> 1 < k ->
  0 < norm (add v1 v2) -> 0 < norm (add v1 (scale k v2)) ->
  cosine v1 (add v1 v2) <= cosine v1 (add v1 (scale k v2)).

(* v_1 = (1, 0), v_2 = (0, 3/4) and twice that: the cosine falls from 4/5 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat [1; 0] [0; 3 / 4] 2 eq_refl eq_refl).
  assert (n1 : norm [1; 0] = 1) by norm_of. assert (n2 : norm [0; 3 / 4] = 3 / 4) by norm_of.
  assert (e1 : add [1; 0] [0; 3 / 4] = [1; 3 / 4]) by (unfold add; cbn [zip]; f_equal; [lra | f_equal; lra]).
  assert (e2 : add [1; 0] (scale 2 [0; 3 / 4]) = [1; 3 / 2]) by (unfold add, scale; cbn [zip map]; f_equal; [lra | f_equal; lra]).
  rewrite e1, e2 in claim. assert (n3 : norm [1; 3 / 4] = 5 / 4) by norm_of.
  assert (p : 0 < square [1; 3 / 2]) by (unfold square, dot; simpl; lra). pose proof (norm_pos _ p).
  specialize (claim ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra)).
  assert (cosine [1; 0] [1; 3 / 4] = 4 / 5) by (unfold cosine; rewrite n1, n3; unfold dot; simpl; lra).
  assert (cosine [1; 0] [1; 3 / 2] <= 3 / 5) by (apply cosine_le; unfold square, dot; simpl; lra). lra.
Qed.
