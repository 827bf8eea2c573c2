(* gip.eq18: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.3, eq. 18.
   C_0(I) is the set of zeros and C_1(I) the set of ones of an index set I in S_k: |C_0(I)| = kd, |C_1(I)| = (1 - k)d. *)
From kernel Require Import definitions lemmas.

Definition zeros (m : list bool) : nat := count_occ bool_dec m false.
Definition printed : Prop := forall d K I, (K <= d)%nat -> In I (masks d K) -> zeros I = K /\ ones I = (d - K)%nat.
Definition correction : Prop := forall d K I, (K <= d)%nat -> In I (masks d K) -> zeros I = (d - K)%nat /\ ones I = K.
