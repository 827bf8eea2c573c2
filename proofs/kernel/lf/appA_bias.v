(* lf.appA.bias: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Appendix A, last step of the proof.
   E[grad f(theta_t)^T b_t] = E<grad f(theta_t), s_t^B>, b_t the bias of s_t^B. *)
From kernel Require Import definitions lemmas.

(* s is the biased signal of a random batch, a finite law; its bias against the true gradient f *)
Definition bias d (s : law vec) (f : vec) : vec := sub (mean_vector d s (fun v => v)) f.
Definition printed : Prop := forall d s f, lawful s -> in_space d s -> length f = d ->
  dot f (bias d s f) = E s (fun v => dot f v).
Definition correction : Prop := forall d s f, lawful s -> in_space d s -> length f = d ->
  dot f (bias d s f) = E s (fun v => dot f v) - square f.
