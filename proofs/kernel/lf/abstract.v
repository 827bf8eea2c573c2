(* lf.abstract: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: section 1, against Table 1.
   Freezing improves the final model's accuracy by up to 1.3 percentage points. *)
From kernel Require Import definitions lemmas.

(* Table 1: median accuracy without and with freezing, in thousandths *)
Definition table_1 : list (Z * Z) :=
  [(956, 957); (975, 976); (981, 981); (801, 815); (855, 868); (862, 875); (533, 548); (637, 651); (558, 571); (625, 636)]%Z.
Definition largest (p : Z) : Prop := Forall (fun a => (snd a - fst a <= p)%Z) table_1.
Definition printed : Prop := largest 13.
Definition correction : Prop := largest 15 /\ In (533, 548)%Z table_1.

Theorem printed_is_false : ~ printed.
Proof. unfold printed, largest, table_1. intro claim. rewrite Forall_forall in claim. specialize (claim (533, 548)%Z ltac:(simpl; tauto)). simpl in claim. lia. Qed.
Theorem correction_holds : correction.
Proof. split; [repeat constructor; simpl; lia | simpl; tauto]. Qed.
