(* lf.appC.cos: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Appendix C.
   "v_3 = v_1 + v_2. Keeping v_1 the same, if the magnitude of v_2 increases, then the cosine similarity between v_1 and v_3 is larger, leading to a smaller angle." *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall d v1 v2 k, length v1 = d -> length v2 = d -> 0 < norm v1 -> 0 < norm v2 -> 1 < k ->
  0 < norm (add v1 v2) -> 0 < norm (add v1 (scale k v2)) ->
  cosine v1 (add v1 v2) <= cosine v1 (add v1 (scale k v2)).
