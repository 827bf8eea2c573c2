(* gip.prop3: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Proposition 3 (eq. 25, 26).
   Each bit of I_0 in {0,1}^d is kept with probability p and flipped otherwise. This is eps_2-DP if p <= e^{eps_2/C_1} / (1 + e^{eps_2/C_1}), C_1 the index sensitivity. *)
From kernel Require Import definitions lemmas.

Fixpoint response (p : R) (I0 I : list bool) : R :=                    (* probability of the output I *)
  match I0, I with a :: I0', b :: I' => (if Bool.eqb a b then p else 1 - p) * response p I0' I' | _, _ => 1 end.
Definition private (d : nat) (p : R) (C1 : nat) (eps : R) : Prop :=
  forall I0 I1 I, length I0 = d -> length I1 = d -> length I = d -> (distance I0 I1 <= C1)%nat ->
  response p I0 I <= exp eps * response p I1 I.
Definition limit (C1 : nat) (eps : R) : R := exp (eps / INR C1) / (1 + exp (eps / INR C1)).
Definition printed : Prop := forall d p C1 eps, 0 <= p <= 1 -> 0 <= eps -> (0 < C1 <= d)%nat ->
  p <= limit C1 eps -> private d p C1 eps.
(* if and only if the larger of p and 1 - p is *)
Definition correction : Prop := forall d p C1 eps, 0 <= p <= 1 -> 0 <= eps -> (0 < C1 <= d)%nat ->
  (Rmax p (1 - p) <= limit C1 eps <-> private d p C1 eps).
