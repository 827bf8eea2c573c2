(* lf.appA.bias: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Appendix A, last step of the proof.
   E[grad f(theta_t)^T b_t] = E<grad f(theta_t), s_t^B>, b_t the bias of s_t^B. *)
From kernel Require Import definitions lemmas.

(* s is the biased signal of a random batch, a finite law; its bias against the true gradient f *)
Definition bias d (s : law vec) (f : vec) : vec := sub (mean_vector d s (fun v => v)) f.
Definition printed : Prop := forall d s f, lawful s -> in_space d s -> length f = d ->
  dot f (bias d s f) = E s (fun v => dot f v).
Definition correction : Prop := forall d s f, lawful s -> in_space d s -> length f = d ->
  dot f (bias d s f) = E s (fun v => dot f v) - square f.

(* no clipping, gradients 1 and 2 with equal chances: <grad f, b> is 0, and E<grad f, s^B> is 9/4 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1%nat [(1 / 2, [1]); (1 / 2, [2])] [3 / 2] ltac:(lawful_by) ltac:(repeat constructor) eq_refl).
  unfold bias, mean_vector, E, dot in claim. cbv [sum map fold_right add zip scale fst snd zero repeat sub total] in claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d s f ls F e. unfold bias. rewrite dot_comm, dot_sub by (rewrite length_mean_vector; [congruence | exact F]).
  rewrite dot_mean by exact F. unfold square. f_equal. apply E_ext. intro. apply dot_comm.
Qed.
