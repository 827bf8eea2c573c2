(* lf.lem2.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 2.1, the descent lemma.
   If grad f is Lipschitz with the constant L, then f(v) <= f(u) + <grad f(u), v - u> + (L/2)|v - u|^2. *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall d L f g u v, 0 <= L -> smooth d L f g -> length u = d -> length v = d ->
  f v <= f u + dot (g u) (sub v u) + L / 2 * square (sub v u).
