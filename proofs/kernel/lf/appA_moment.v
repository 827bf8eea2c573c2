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
