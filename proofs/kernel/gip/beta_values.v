(* gip.beta_values: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: text below Corollary 1, and Appendix B.1.
   beta = 0.9913 for WRN-16-4; 0.78 is the smallest value over d in [10, 200], k in [0.1, 0.9]. Clipping bound C = 1. *)
From kernel Require Import definitions lemmas.

(* beta of Corollary 1, K = kd; zeta = k + 2 a phi(a), a the quantile of eq. 15. Of a only a >= 0 and 1 - zeta > 0 is used:
   1 - zeta is the integral of x^2 phi(x) from -a to a (eq. 16). *)
Definition zeta (k a : R) : R := k + 2 * a / sqrt (2 * PI) * exp (- a ^ 2 / 2).
(* F(theta) = E[i], i = h / 2 the number of swapped pairs of the Mallows law around I0 *)
Definition weight (theta : R) (I0 I : list bool) : R := exp (- theta * INR (distance I I0)).
Definition swaps d K theta I0 : R :=
  over_masks d K (fun I => INR (distance I I0) / 2 * weight theta I0 I) / over_masks d K (weight theta I0).
Definition beta (C a theta : R) (d K : nat) (I0 : list bool) : R :=
  let k := share d K in
  C ^ 2 * (1 - k) * INR d / ((1 - k) * INR d * (1 - zeta k a) + zeta k a / k * swaps d K theta I0).
Definition takes (b : R) : Prop := exists d K a theta I0, (0 < K < d)%nat /\ 0 <= theta /\ 0 <= a /\ zeta (share d K) a < 1 /\
  In I0 (masks d K) /\ beta 1 a theta d K I0 = b.
Definition printed : Prop := takes 0.9913 \/ takes 0.78.
(* beta is at least C^2 *)
Definition correction : Prop := forall C d K a theta I0, 0 < C -> (0 < K < d)%nat -> 0 <= theta -> 0 <= a -> zeta (share d K) a < 1 ->
  In I0 (masks d K) -> C ^ 2 <= beta C a theta d K I0.
