(* gip.eq18: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.3, eq. 18.
   C_0(I) is the set of zeros and C_1(I) the set of ones of an index set I in S_k: |C_0(I)| = kd, |C_1(I)| = (1 - k)d. *)
From kernel Require Import definitions lemmas.

Definition zeros (m : list bool) : nat := count_occ bool_dec m false.
Definition printed : Prop := forall d K I, (K <= d)%nat -> In I (masks d K) -> zeros I = K /\ ones I = (d - K)%nat.
Definition correction : Prop := forall d K I, (K <= d)%nat -> In I (masks d K) -> zeros I = (d - K)%nat /\ ones I = K.

(* d = 3, K = 1: 2 zeros, printed 1 *)
Theorem printed_is_false : ~ printed.
Proof. intro claim. destruct (claim 3%nat 1%nat [true; false; false] ltac:(lia) ltac:(simpl; auto)) as [h _]. discriminate h. Qed.
Lemma together m : (zeros m + ones m = length m)%nat.
Proof. unfold zeros, ones. induction m as [|[] m IH]; simpl in *; lia. Qed.
Theorem correction_holds : correction.
Proof. intros d K I l i. destruct (in_masks _ _ _ i) as [a b]. pose proof (together I). split; lia. Qed.
