(* lf.appA.moment: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Appendix A.
   E|s_t^P|^2 <= sigma^2 C^2 / B^2, s^P = s^B + z, z ~ N(0, (sigma C / B)^2 I). *)
From kernel Require Import definitions lemmas.

(* the batch is the whole data: s^B, of norm at most C, is fixed; tau = sigma C / B *)
Definition moment {O} (e : expectation O) (n : nat -> O -> R) d (s : vec) tau : R :=
  ex e (fun o => square (add s (scale tau (noise n d o)))).
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d s C sigma B, length s = d -> 0 < C -> norm s <= C -> 0 < sigma -> 1 <= B ->
  moment e n d s (sigma * C / B) <= sigma ^ 2 * C ^ 2 / B ^ 2.
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d s tau, length s = d -> moment e n d s tau = square s + INR d * tau ^ 2.

Theorem correction_holds : correction.
Proof.
  intros O e n nz d s tau l. unfold moment.
  pose proof (ex_noisy O e n nz d tau (repeat true d) s (repeat_length _ _) l) as h. rewrite ones_all in h.
  rewrite Rmult_comm, <- h. apply ex_ext. intro o.
  replace (mask (repeat true d) (scale tau (noise n d o))) with (scale tau (noise n d o)); [reflexivity|].
  rewrite <- (mask_all (scale tau (noise n d o))) at 1. rewrite length_scale, length_noise. reflexivity.
Qed.
(* d = 1, s^B = 1 = C, sigma = B = 1: 2, printed 1 *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & nz & claim). assert (n1 : norm [1] = 1) by norm_of.
  specialize (claim 1%nat [1] 1 1 1 eq_refl ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra)).
  rewrite (correction_holds O e n nz 1%nat [1] (1 * 1 / 1) eq_refl) in claim. unfold square, dot in claim. simpl in claim. lra.
Qed.
