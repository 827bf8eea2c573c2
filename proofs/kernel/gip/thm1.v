(* gip.thm1: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Theorem 1, Definition 4 (eq. 4, 8 to 10).
   P(I) = exp(-theta h(I, I_0)) / psi over the index sets with K = kd ones is eps-differentially private if and only if theta <= eps / s_1, s_1 the sensitivity of the index set. *)
From kernel Require Import definitions lemmas.

Definition weight (theta : R) (I0 I : list bool) : R := exp (- theta * INR (distance I I0)).
Definition psi (d K : nat) (theta : R) (I0 : list bool) : R := over_masks d K (weight theta I0).
Definition mallows (d K : nat) (theta : R) (I0 I : list bool) : R := weight theta I0 I / psi d K theta I0.
(* neighbours' index sets: any relation; s is the largest distance in it, and reached *)
Definition sensitivity (d K : nat) (near : list bool -> list bool -> Prop) (s : nat) : Prop :=
  (forall I J, near I J -> In I (masks d K) /\ In J (masks d K) /\ (distance I J <= s)%nat) /\
  exists I J, near I J /\ distance I J = s.
Definition private (d K : nat) (theta : R) (near : list bool -> list bool -> Prop) (eps : R) : Prop :=
  forall I0 I1 I, near I0 I1 -> In I (masks d K) ->
  mallows d K theta I0 I <= exp eps * mallows d K theta I1 I /\ mallows d K theta I1 I <= exp eps * mallows d K theta I0 I.
Definition printed : Prop := forall d K theta near s eps, (K <= d)%nat -> 0 <= theta -> (0 < s)%nat -> sensitivity d K near s ->
  (private d K theta near eps <-> theta <= eps / INR s).
